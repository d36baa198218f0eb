"""The PyTorch models of the troupe-bench peer."""

from torch import nn


class Bottleneck(nn.Module):
    """A ResNet-50 block, version 1.5: the 3x3 convolution has the stride."""

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, channels, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
            nn.Conv2d(channels, 4 * channels, 1, bias=False), nn.BatchNorm2d(4 * channels))
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != 4 * channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, 4 * channels, 1, stride, bias=False), nn.BatchNorm2d(4 * channels))

    def forward(self, x):
        return nn.functional.relu(self.body(x) + self.shortcut(x), inplace=True)


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels_in = 64
    for stage, blocks in enumerate([3, 4, 6, 3]):
        channels = 64 << stage
        for block in range(blocks):
            layers.append(Bottleneck(channels_in, channels, 2 if block == 0 and stage > 0 else 1))
            channels_in = 4 * channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels_in, 1000))


def make_model(name):
    if name == "resnet50":
        return resnet50()
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 5 * 5, 128), nn.ReLU(), nn.Linear(128, 10))
