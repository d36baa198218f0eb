"""Prints TensorBoard's view of a directory of event files as one JSON object; without a directory, prints nothing.

Usage: read_curves.py [DIR]
"""

import json
import logging
import sys

from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator

ALL = {"scalars": 0, "histograms": 0, "compressedHistograms": 0, "images": 0, "tensors": 0}  # instead of a sample


def classic(directory):
    events = event_accumulator.EventAccumulator(directory, size_guidance=ALL)
    events.Reload()
    tags = events.Tags()
    figures = ("num", "min", "max", "sum", "sum_squares", "bucket_limit", "bucket")
    return {
        "scalars": {tag: [[p.wall_time, p.step, p.value] for p in events.Scalars(tag)] for tag in tags["scalars"]},
        "histograms": {
            tag: [
                {"step": p.step} | {name: getattr(p.histogram_value, name) for name in figures}
                for p in events.Histograms(tag)
            ]
            for tag in tags["histograms"]
        },
        "images": {
            tag: [[p.step, p.width, p.height, p.encoded_image_string.hex()] for p in events.Images(tag)]
            for tag in tags["images"]
        },
        "texts": {
            tag: [[p.step, p.tensor_proto.string_val[0].decode()] for p in events.Tensors(tag)]
            for tag in tags["tensors"]
        },
        "graph": [
            {"name": n.name, "op": n.op, "device": n.device, "input": list(n.input)}
            for n in (events.Graph().node if tags["graph"] else [])
        ],
        "file_version": events.file_version,
    }


def converted(directory):
    """As the pages of today's TensorBoard get it: everything is a tensor."""
    events = plugin_event_accumulator.EventAccumulator(
        directory, size_guidance=ALL, tensor_size_guidance={"scalars": 0, "histograms": 0, "images": 0, "text": 0}
    )
    events.Reload()
    return {tag: events.SummaryMetadata(tag).plugin_data.plugin_name for tag in events.Tags()["tensors"]}


if __name__ == "__main__" and len(sys.argv) > 1:
    logging.disable()
    print(json.dumps(classic(sys.argv[1]) | {"plugins": converted(sys.argv[1])}))
