#include "troupe/kernels/readers/digits.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <troupe/kernels/readers/digit_strokes.hpp>
#include <troupe/messages/philox.hpp>

namespace troupe {
namespace {

constexpr int kSide = 28;
constexpr int kPixels = kSide * kSide;

// Random numbers for one image. Where two arguments of a call need one each, both are drawn before the call, because
// the evaluation order of arguments is unspecified.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream) : stream_{mix64(seed), stream} {}
  std::uint32_t bits() {
    if (next_ == 4) {
      block_ = stream_.block(blocks_++);
      next_ = 0;
    }
    return block_[next_++];
  }
  float uniform(float low, float high) { return low + (high - low) * uniform_float(bits()); }
  // Sum of three uniform variables: bell-shaped, from -1 to 1.
  float bell() { return (uniform(-1, 1) + uniform(-1, 1) + uniform(-1, 1)) / 3; }
  bool chance(float probability) { return uniform(0, 1) < probability; }
  std::size_t index(std::size_t count) { return (std::uint64_t{bits()} * count) >> 32; }

 private:
  PhiloxStream stream_;
  PhiloxBlock block_{};
  std::uint64_t blocks_ = 0;
  std::size_t next_ = 4;
};

struct Point {
  float x = 0;
  float y = 0;
};
Point operator+(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
Point operator*(float s, Point p) { return {s * p.x, s * p.y}; }
float dot(Point a, Point b) { return a.x * b.x + a.y * b.y; }

// Maps the digit's box (percent) to the image (pixels): bends the paper elastically, then scales, slants, rotates and
// shifts it.
class Distortion {
 public:
  explicit Distortion(Random& random) {
    for (Point& p : bend_) p = {kBend * random.bell(), kBend * random.bell()};
    const float scale = random.uniform(0.165f, 0.215f);
    const float aspect = random.uniform(0.80f, 1.10f);
    const float slant = 0.38f * random.bell();
    // A rotation without sine and cosine: t is the tangent of half the angle (here within 15 degrees).
    const float t = 0.13f * random.bell();
    const float cosine = (1 - t * t) / (1 + t * t);
    const float sine = 2 * t / (1 + t * t);
    const float width = scale * aspect;
    to_x_ = {cosine * width, -sine * scale - slant * cosine * scale};
    to_y_ = {sine * width, cosine * scale - slant * sine * scale};
    // Four separate positions instead of one blurred one: a linear model cannot hold several templates per class.
    centre_ = {13.5f + (random.chance(0.5f) ? kCorner : -kCorner) + kShift * random.bell(),
               13.5f + (random.chance(0.5f) ? kCorner : -kCorner) + kShift * random.bell()};
  }

  Point operator()(StrokePoint p) const {
    const Point bent = Point{p.x, p.y} + bend(p) - Point{50, 50};
    return centre_ + Point{dot(to_x_, bent), dot(to_y_, bent)};
  }

 private:
  static constexpr int kGrid = 4;         // points of the bending grid per side
  static constexpr float kBend = 11.0f;   // percent of the box
  static constexpr float kShift = 1.0f;   // pixels
  static constexpr float kCorner = 2.5f;  // pixels

  Point bend(StrokePoint p) const {
    const float gx = std::clamp(p.x / 100, 0.0f, 1.0f) * (kGrid - 1);
    const float gy = std::clamp(p.y / 100, 0.0f, 1.0f) * (kGrid - 1);
    const int ix = std::min(static_cast<int>(gx), kGrid - 2);
    const int iy = std::min(static_cast<int>(gy), kGrid - 2);
    const float fx = gx - static_cast<float>(ix);
    const float fy = gy - static_cast<float>(iy);
    const Point* corner = &bend_[static_cast<std::size_t>(iy * kGrid + ix)];
    return (1 - fy) * ((1 - fx) * corner[0] + fx * corner[1]) +
           fy * ((1 - fx) * corner[kGrid] + fx * corner[kGrid + 1]);
  }

  std::array<Point, kGrid * kGrid> bend_;
  Point to_x_, to_y_, centre_;
};

class Canvas {
 public:
  // Draws a line with round ends; where lines cross, the stronger ink wins.
  void draw_line(Point from, Point to, float width, float ink) {
    const float reach = width / 2 + 0.5f;
    const Point along = to - from;
    const float length2 = std::max(dot(along, along), 1e-6f);
    for_box({std::min(from.x, to.x) - reach, std::min(from.y, to.y) - reach},
            {std::max(from.x, to.x) + reach, std::max(from.y, to.y) + reach}, [&](Point p, float& pixel) {
              const float where = std::clamp(dot(p - from, along) / length2, 0.0f, 1.0f);
              const Point away = p - from - where * along;
              const float coverage = std::clamp(reach - std::sqrt(dot(away, away)), 0.0f, 1.0f);
              pixel = std::max(pixel, ink * coverage);
            });
  }

  // Erases the ink inside a disc.
  void erase(Point centre, float radius) {
    for_box({centre.x - radius, centre.y - radius}, {centre.x + radius, centre.y + radius}, [&](Point p, float& pixel) {
      if (dot(p - centre, p - centre) < radius * radius) pixel = 0;
    });
  }

  void add_noise(Random& random, float amount) {
    for (float& pixel : ink_) pixel += amount * random.uniform(-1, 1);
  }

  void store(std::uint8_t* to) const {
    std::transform(ink_.begin(), ink_.end(), to,
                   [](float ink) { return static_cast<std::uint8_t>(255 * std::clamp(ink, 0.0f, 1.0f) + 0.5f); });
  }

 private:
  template <class F>
  void for_box(Point low, Point high, F&& visit) {
    const int x0 = std::clamp(static_cast<int>(low.x), 0, kSide),
              x1 = std::clamp(static_cast<int>(high.x) + 1, 0, kSide);
    const int y0 = std::clamp(static_cast<int>(low.y), 0, kSide),
              y1 = std::clamp(static_cast<int>(high.y) + 1, 0, kSide);
    for (int y = y0; y < y1; ++y) {
      for (int x = x0; x < x1; ++x) {
        visit(Point{static_cast<float>(x), static_cast<float>(y)}, ink_[static_cast<std::size_t>(y * kSide + x)]);
      }
    }
  }

  std::array<float, kPixels> ink_{};
};

// The point at fraction t between b and c of the Catmull-Rom spline through a, b, c, d.
Point spline(Point a, Point b, Point c, Point d, float t) {
  const Point cubic = 3 * (b - c) + (d - a);
  const Point square = 2 * a - 5 * b + 4 * c - d;
  return 0.5f * (2 * b + t * ((c - a) + t * (square + t * cubic)));
}

void draw_stroke(Canvas& canvas, const Stroke& stroke, const Distortion& distort, float width, float ink) {
  constexpr int kPieces = 5;
  std::vector<Point> points;
  for (const StrokePoint& p : stroke.points) points.push_back(distort(p));
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    if (!stroke.smooth) {
      canvas.draw_line(points[i], points[i + 1], width, ink);
      continue;
    }
    const Point before = points[i == 0 ? 0 : i - 1];
    const Point after = points[std::min(i + 2, points.size() - 1)];
    Point from = points[i];
    for (int piece = 1; piece <= kPieces; ++piece) {
      const Point to = spline(before, points[i], points[i + 1], after, static_cast<float>(piece) / kPieces);
      canvas.draw_line(from, to, width, ink);
      from = to;
    }
  }
}

void draw_clutter(Canvas& canvas, Random& random) {
  const Point from = {random.uniform(0, kSide), random.uniform(0, kSide)};
  const Point to = from + Point{random.uniform(-6, 6), random.uniform(-6, 6)};
  const float ink = random.uniform(0.3f, 0.8f);
  const float width = random.uniform(0.8f, 1.6f);
  canvas.draw_line(from, to, width, ink);
}

void draw_digit(int digit, Random& random, std::uint8_t* to) {
  Canvas canvas;
  const auto styles = digit_styles(digit);
  const DigitStyle& style = styles[random.index(styles.size())];
  const Distortion distort(random);
  const float width = random.uniform(1.3f, 3.4f);
  const float ink = random.uniform(0.65f, 1.0f);
  for (const Stroke& stroke : style) draw_stroke(canvas, stroke, distort, width, ink);
  if (random.chance(0.15f)) {
    const float radius = random.uniform(1.0f, 2.2f);
    canvas.erase({random.uniform(6, 22), random.uniform(6, 22)}, radius);
  }
  if (random.chance(0.3f)) draw_clutter(canvas, random);
  canvas.add_noise(random, random.uniform(0.0f, 0.12f));
  canvas.store(to);
}

Dataset draw_split(std::int64_t size, std::uint64_t seed, std::uint64_t split) {
  Dataset dataset{Tensor(DType::u8, Shape{size, kSide, kSide, 1}), Tensor(DType::i32, Shape{size})};
  std::uint8_t* image = dataset.images.mutable_data<std::uint8_t>();
  std::int32_t* label = dataset.labels.mutable_data<std::int32_t>();
  for (std::int64_t i = 0; i < size; ++i, image += kPixels) {
    label[i] = static_cast<std::int32_t>(i % 10);
    Random random(seed, split << 62 | static_cast<std::uint64_t>(i));
    draw_digit(label[i], random, image);
  }
  return dataset;
}

}  // namespace

DataSplits draw_digits(const DigitOptions& options) {
  if (options.train < 0 || options.test < 0) {
    invalid_argument("draw_digits: sizes must not be negative: {} train, {} test", options.train, options.test);
  }
  return {draw_split(options.train, options.seed, 0), draw_split(options.test, options.seed, 1)};
}

}  // namespace troupe
