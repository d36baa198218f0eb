#!/usr/bin/env python3
"""Runs a program in a terminal, types keys, and draws the resulting screen as SVG.

  screenshot.py OUT.svg COLUMNSxROWS 'STEP STEP ...' -- COMMAND...

A step is a number of seconds to wait, or keys to type. Supports only the sequences that ncurses sends to an xterm.
"""
import fcntl
import html
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
import unicodedata

COLORS = {1: "#f7768e", 2: "#9ece6a", 3: "#e0af68", 6: "#7dcfff"}
PLAIN, DIM, BACKGROUND, SELECTED = "#c0caf5", "#7a83ad", "#1a1b26", "#3b4261"
CELL, LINE = 8.4, 18  # pixels


class Screen:
    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.cells = [[(" ", ()) for _ in range(columns)] for _ in range(rows)]
        self.x = self.y = 0
        self.region = (0, rows)
        self.style = frozenset()
        self.last = " "
        self.rest = ""

    def feed(self, text):
        text = self.rest + text
        self.rest = ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = re.compile(r"\x1b(?:\[([0-9;?>]*)([A-Za-z@])|[()].|[^\[()])").match(text, at)
                if not found:
                    self.rest = text[at:]
                    return
                if found[2]:
                    self.command(found[2], found[1])
                elif found[0] == "\x1bM" and self.y == self.region[0]:
                    self.scroll(*self.region, -1)
                elif found[0] == "\x1bM":
                    self.y -= 1
                at = found.end()
                continue
            self.plain(text[at])
            at += 1

    def plain(self, character):
        if character == "\r":
            self.x = 0
        elif character == "\n":
            if self.y + 1 == self.region[1]:
                self.scroll(*self.region, 1)
            else:
                self.y = min(self.y + 1, self.rows - 1)
        elif character == "\b":
            self.x = max(self.x - 1, 0)
        elif character >= " ":
            if self.x < self.columns:
                self.cells[self.y][self.x] = (character, self.style)
            wide = unicodedata.east_asian_width(character) in "WF"
            self.x += 2 if wide else 1
            self.last = character

    def scroll(self, begin, end, lines):
        """Moves the lines of a region up, or down if `lines` is negative."""
        blank = [[(" ", frozenset())] * self.columns for _ in range(abs(lines))]
        old = self.cells[begin:end]
        new = old[lines:] + blank if lines > 0 else blank + old[:lines]
        self.cells[begin:end] = new[-(end - begin) :] if lines > 0 else new[: end - begin]

    def clear(self, row, begin, end):
        for x in range(begin, end):
            self.cells[row][x] = (" ", frozenset())

    def command(self, final, parameters):
        if parameters[:1] in ("?", ">"):
            return
        numbers = [int(p or 0) for p in parameters.split(";")]
        n = max(numbers[0], 1)
        if final == "H":
            self.y, self.x = n - 1, (max(numbers[1], 1) if len(numbers) > 1 else 1) - 1
        elif final == "d":
            self.y = n - 1
        elif final == "G":
            self.x = n - 1
        elif final in "ABCD":
            self.y += {"A": -n, "B": n}.get(final, 0)
            self.x += {"C": n, "D": -n}.get(final, 0)
        elif final == "X":
            self.clear(self.y, self.x, min(self.x + n, self.columns))
        elif final == "K":
            self.clear(self.y, *((0, self.x + 1) if numbers[0] == 1 else (self.x, self.columns)))
        elif final == "J":
            for row in range(0 if numbers[0] == 2 else self.y, self.rows):
                self.clear(row, self.x if row == self.y and numbers[0] == 0 else 0, self.columns)
        elif final == "b":
            for _ in range(n):
                self.plain(self.last)
        elif final == "P":
            line = self.cells[self.y]
            self.cells[self.y] = (line[: self.x] + line[self.x + n :] + [(" ", frozenset())] * n)[: self.columns]
        elif final == "@":
            line = self.cells[self.y]
            self.cells[self.y] = (line[: self.x] + [(" ", frozenset())] * n + line[self.x :])[: self.columns]
        elif final == "m":
            for number in numbers:
                if number == 0:
                    self.style = frozenset()
                elif number in (1, 2, 7) or 30 <= number <= 37:
                    self.style |= {number}
                elif number == 39:
                    self.style = frozenset(s for s in self.style if s < 30)
                elif number == 27:
                    self.style -= {7}
                elif number == 22:
                    self.style -= {1, 2}
        elif final == "r":
            self.region = (n - 1, numbers[1] if len(numbers) > 1 else self.rows)
            self.x = self.y = 0
        elif final in "ST":
            self.scroll(*self.region, n if final == "S" else -n)
        elif final in "LM":
            self.scroll(self.y, self.region[1], n if final == "M" else -n)
        elif final not in "hlt":
            sys.exit(f"screenshot: unknown escape sequence: ESC [ {parameters}{final}")


def svg(screen, title):
    width, height = screen.columns * CELL + 24, screen.rows * LINE + 24
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
           f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{html.escape(title)}" '
           'font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,\'DejaVu Sans Mono\',monospace" font-size="14">',
           f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>']
    for y, line in enumerate(screen.cells):
        x = 0
        while x < screen.columns:
            end = x
            while end < screen.columns and line[end][1] == line[x][1]:
                end += 1
            style, text = line[x][1], "".join(c for c, _ in line[x:end])
            left = 12 + x * CELL
            if 7 in style:
                out.append(f'<rect x="{left:.1f}" y="{12 + y * LINE}" width="{(end - x) * CELL:.1f}" height="{LINE}" '
                           f'fill="{SELECTED}"/>')
            if text.strip():
                shown = text.rstrip()
                color = next((COLORS[s - 30] for s in style if s - 30 in COLORS), DIM if 2 in style else PLAIN)
                bold = ' font-weight="bold"' if 1 in style else ""
                out.append(f'<text x="{left:.1f}" y="{12 + y * LINE + 13}" textLength="{len(shown) * CELL:.1f}" '
                           f'lengthAdjust="spacingAndGlyphs" fill="{color}"{bold} '
                           f'xml:space="preserve">{html.escape(shown)}</text>')
            x = end
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    if len(sys.argv) < 6 or sys.argv[4] != "--":
        sys.exit(__doc__)
    out, size, steps, command = sys.argv[1], sys.argv[2], sys.argv[3].split(" "), sys.argv[5:]
    columns, rows = (int(n) for n in size.split("x"))
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8")
        time.sleep(0.2)  # until the size is set
        os.execvp(command[0], command)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    screen = Screen(columns, rows)
    for step in steps:
        if re.fullmatch(r"[0-9]+(\.[0-9]+)?s", step):
            end = time.monotonic() + float(step[:-1])
        else:
            os.write(fd, step.replace("\\r", "\r").encode())
            end = time.monotonic() + 0.3
        while (left := end - time.monotonic()) > 0:
            if select.select([fd], [], [], left)[0]:
                screen.feed(os.read(fd, 65536).decode("utf-8", "replace"))
    os.kill(pid, signal.SIGTERM)
    os.close(fd)
    os.waitpid(pid, 0)
    with open(out, "w", encoding="utf-8") as file:
        file.write(svg(screen, " ".join(os.path.basename(c) for c in command[:1])))


main()
