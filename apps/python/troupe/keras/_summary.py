"""The table of Model.summary(), as Keras prints it."""

from __future__ import annotations

import typing


def bytes_text(count: int) -> str:
    """
    >>> bytes_text(407080), bytes_text(0)
    ('397.54 KB', '0.00 B')
    """
    size, units = float(count), ["B", "KB", "MB", "GB", "TB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.2f} {units[0]}"


def shape_text(output: typing.Any) -> str:
    """Of a tensor, or of a list of them."""
    if output is None:
        return "?"
    if isinstance(output, (list, tuple)):
        return "[" + ", ".join(shape_text(o) for o in output) + "]"
    if isinstance(output, dict):
        return "{" + ", ".join(f"{k}: {shape_text(o)}" for k, o in output.items()) + "}"
    return str(tuple(output.shape))


def _wrapped(text: str, width: int) -> typing.List[str]:
    lines, line = [], ""
    for word in text.split(" "):
        while len(word) > width:
            if line:
                lines.append(line)
                line = ""
            lines.append(word[:width])
            word = word[width:]
        joined = f"{line} {word}" if line else word
        if len(joined) > width:
            lines.append(line)
            joined = word
        line = joined
    return lines + [line]


def table(columns: typing.Sequence[typing.Tuple[str, int, bool]],
          rows: typing.Sequence[typing.Sequence[str]]) -> str:
    """columns: title, width without borders, whether it is of numbers, to the right."""
    def line(left: str, middle: str, right: str, fill: str) -> str:
        return left + middle.join(fill * (width + 2) for _, width, _ in columns) + right

    def cells(texts: typing.Sequence[str], bar: str) -> str:
        wrapped = [_wrapped(text, width) for text, (_, width, _) in zip(texts, columns)]
        out = []
        for i in range(max(len(w) for w in wrapped)):
            parts = []
            for lines, (_, width, right) in zip(wrapped, columns):
                text = lines[i] if i < len(lines) else ""
                parts.append(f" {text.rjust(width) if right else text.ljust(width)} ")
            out.append(bar + bar.join(parts) + bar)
        return "\n".join(out)

    text = [line("┏", "┳", "┓", "━"), cells([title for title, _, _ in columns], "┃"), line("┡", "╇", "┩", "━")]
    for i, row in enumerate(rows):
        if i:
            text.append(line("├", "┼", "┤", "─"))
        text.append(cells(row, "│"))
    return "\n".join(text + [line("└", "┴", "┘", "─")])


def totals(trained: int, other: int, bytes_each: int = 4, optimizer: int = 0) -> str:
    lines = [("Total params", trained + other + optimizer), ("Trainable params", trained),
             ("Non-trainable params", other)]
    if optimizer:
        lines.append(("Optimizer params", optimizer))
    return "\n".join(f" {name}: {count:,} ({bytes_text(count * bytes_each)})" for name, count in lines)
