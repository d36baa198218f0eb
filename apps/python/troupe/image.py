"""Functions of images: sizes, samples, regions. Images are [n, height, width, c] where nothing else is said."""

from __future__ import annotations

import typing

from . import _troupe
from ._core import Tensor, TensorLike
from .nn import resize

__all__ = [
    "batched_non_max_suppression", "crop_and_resize", "grid_sample", "max_roi_pool", "non_max_suppression", "resize",
    "roi_align",
]


def crop_and_resize(images: TensorLike, boxes: TensorLike, box_indices: TensorLike, crop_size: typing.Sequence[int],
                    method: str = "bilinear", extrapolation_value: float = 0.0) -> Tensor:
    """Boxes [b, 4] of (y1, x1, y2, x2) in [0, 1], each of the image box_indices [b], resized with the corners at the
    corners: [b, *crop_size, c]. method: bilinear or nearest. extrapolation_value: of places outside.

    >>> troupe.image.crop_and_resize(troupe.ones((1, 4, 4, 3)), [[0., 0., 1., 1.]], [0], (2, 2)).shape
    (1, 2, 2, 3)
    """
    return _troupe.crop_and_resize(images, boxes, box_indices, list(crop_size), method, extrapolation_value)


def grid_sample(x: TensorLike, grid: TensorLike, method: str = "bilinear", padding: str = "zeros",
                align_corners: bool = False) -> Tensor:
    """x [n, c, h, w] at the places grid [n, rows, columns, 2], each (x, y) in [-1, 1]: [n, c, rows, columns]. method:
    bilinear, nearest or bicubic. padding: what lies outside, zeros, border or reflection. align_corners: -1 and 1 are
    the centres of the outermost elements, not their outer edges.

    >>> troupe.image.grid_sample([[[[1., 3.]]]], [[[[0., 0.]]]])
    Tensor([[[[2.]]]], dtype=float32)
    """
    return _troupe.grid_sample(x, grid, method, padding, align_corners)


def roi_align(x: TensorLike, rois: TensorLike, batch_indices: TensorLike, output_size: typing.Sequence[int],
              sampling_ratio: int = 0, spatial_scale: float = 1.0, half_pixel: bool = True, mode: str = "avg"
              ) -> Tensor:
    """Regions [r, 4] of (x1, y1, x2, y2), each of the image batch_indices [r] of x [n, c, h, w]: [r, c, *output_size]
    (He et al. 2017). sampling_ratio: samples of a bin in each direction, 0: one for each element that it covers. mode:
    avg, or max, the greatest sample.

    >>> troupe.image.roi_align(troupe.ones((1, 2, 4, 4)), [[0., 0., 3., 3.]], [0], (2, 2)).shape
    (1, 2, 2, 2)
    """
    if mode not in ("avg", "max"):
        raise ValueError(f"roi_align: mode is 'avg' or 'max', not {mode!r}")
    return _troupe.roi_align(x, rois, batch_indices, list(output_size), sampling_ratio, spatial_scale, half_pixel,
                             mode == "max")


def max_roi_pool(x: TensorLike, rois: TensorLike, output_size: typing.Sequence[int], spatial_scale: float = 1.0
                 ) -> Tensor:
    """The greatest element of each bin of regions [r, 5] of (image, x1, y1, x2, y2), inclusive, of x [n, c, h, w]:
    [r, c, *output_size] (Girshick 2015).

    >>> troupe.image.max_roi_pool(troupe.ones((1, 2, 4, 4)), [[0., 0., 0., 3., 3.]], (2, 2)).shape
    (1, 2, 2, 2)
    """
    return _troupe.max_roi_pool(x, rois, list(output_size), spatial_scale)


def non_max_suppression(boxes: TensorLike, scores: TensorLike, max_output_size: int, iou_threshold: float = 0.5,
                        score_threshold: typing.Optional[float] = None) -> Tensor:
    """Which of boxes [b, 4] of (y1, x1, y2, x2), in descending order of scores [b], do not overlap those before by more
    than iou_threshold: int64 [selected]. score_threshold: only greater scores count.

    >>> boxes = [[0., 0., 1., 1.], [0., 0., 1., 0.9], [2., 2., 3., 3.]]
    >>> troupe.image.non_max_suppression(boxes, [0.5, 0.9, 0.7], 3)
    Tensor([1, 2], dtype=int64)
    """
    return _troupe.non_max_suppression(boxes, scores, max_output_size, iou_threshold, score_threshold, False)


def batched_non_max_suppression(boxes: TensorLike, scores: TensorLike, max_output_size: int,
                                iou_threshold: float = 0.5, score_threshold: typing.Optional[float] = None,
                                center_point_box: bool = False) -> Tensor:
    """The same for each image and class, as ONNX's: boxes [n, b, 4], scores [n, classes, b] -> int64 [selected, 3] of
    (image, class, box). center_point_box: boxes are (x, y, width, height) around a centre.

    >>> troupe.image.batched_non_max_suppression([[[0., 0., 1., 1.]]], [[[0.5]]], 3)
    Tensor([[0, 0, 0]], dtype=int64)
    """
    return _troupe.batched_non_max_suppression(boxes, scores, max_output_size, iou_threshold, score_threshold,
                                               center_point_box)
