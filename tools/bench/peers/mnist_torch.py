"""Trains the models of troupe-mnist with PyTorch: a peer of troupe-bench, which starts it (see mnist_data.py)."""

import os
import sys

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when the library is loaded

import mnist_data

PINNED = "1.13"  # python3-torch of Debian 12 is 1.13.1

try:
    import torch
    from torch import nn

    from torch_models import make_model
except ImportError as error:
    mnist_data.say("unavailable: " + str(error) + " (tools/setup.sh --with-peers)")
    sys.exit(0)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    directory, model_name, batch, epochs = mnist_data.arguments()
    images, labels = mnist_data.load(directory)
    images = torch.from_numpy(images).reshape(-1, 1, 28, 28)
    labels = torch.from_numpy(labels).long()
    model = make_model(model_name)
    loss_function = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    steps = len(labels) // batch

    def run_epoch():
        order = torch.randperm(len(labels))
        total = 0.0
        for step in range(steps):
            indices = order[step * batch:(step + 1) * batch]
            optimizer.zero_grad(set_to_none=True)
            loss = loss_function(model(images[indices]), labels[indices])
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total / steps

    version = torch.__version__
    pinned = "1.13.1" if version.startswith(PINNED) else version + " (not the pinned 1.13.1)"
    mnist_data.serve("PyTorch " + pinned, steps, run_epoch, epochs)


main()
