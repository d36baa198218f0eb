"""Trains models on a GPU with PyTorch: a peer of troupe-bench, which starts it (see mnist_data.py).

The last argument: "eager", or "compiled" (torch.compile with CUDA graphs). All data is on the GPU before training
starts. Without a directory ("-") batches are random images of ImageNet's size. f32 products may use TF32; resnet50
computes in bf16 where PyTorch's autocast does.
"""

import sys

import mnist_data

try:
    import torch
    from torch import nn

    from torch_models import make_model

    if not torch.cuda.is_available():
        raise ImportError("PyTorch " + torch.__version__ + " found no GPU")
except ImportError as error:
    mnist_data.say("unavailable: " + str(error))
    sys.exit(0)

STEPS_OF_RANDOM_IMAGES = 20  # counted as one epoch


def main():
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True  # picks cuDNN's fastest algorithm
    directory, model_name, batch, epochs = mnist_data.arguments()
    mode = sys.argv[5]
    device = torch.device("cuda")
    half = model_name == "resnet50"
    model = make_model(model_name).to(device, memory_format=torch.channels_last)
    if model_name == "resnet50":
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    run_model = torch.compile(model, mode="reduce-overhead") if mode == "compiled" else model
    loss_function = nn.CrossEntropyLoss()
    if directory == "-":
        images = torch.randn(batch, 3, 224, 224, device=device).contiguous(memory_format=torch.channels_last)
        labels = torch.randint(1000, (batch,), device=device)
        steps = STEPS_OF_RANDOM_IMAGES
    else:
        loaded, numbers = mnist_data.load(directory)
        images = torch.from_numpy(loaded).reshape(-1, 1, 28, 28).to(device)
        labels = torch.from_numpy(numbers).long().to(device)
        steps = len(labels) // batch

    def run_epoch():
        random = directory == "-"
        order = None if random else torch.randperm(len(labels), device=device)
        total = torch.zeros((), device=device)
        for step in range(steps):
            if random:
                x, y = images, labels
            else:
                indices = order[step * batch:(step + 1) * batch]
                x, y = images[indices], labels[indices]
            if mode == "compiled":
                torch.compiler.cudagraph_mark_step_begin()
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16, enabled=half):
                loss = loss_function(run_model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        return total.item() / steps  # waits for the GPU

    mnist_data.serve("PyTorch " + torch.__version__ + " " + mode, steps, run_epoch, epochs)


main()
