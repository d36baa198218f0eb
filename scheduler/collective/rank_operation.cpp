#include "troupe/scheduler/collective/rank_operation.hpp"

#include <cstring>

#include <troupe/devices/collective/reduce.hpp>

namespace troupe {
namespace {

Tensor piece_of(const Tensor& flat, ElementRange range) { return flat.rows(range.begin, range.end); }

void copy_into(Tensor& flat, ElementRange range, const Tensor& piece) {
  const std::size_t size = size_of(flat.dtype());
  if (piece.num_bytes() > 0)
    std::memcpy(flat.mutable_raw() + static_cast<std::size_t>(range.begin) * size, piece.raw(), piece.num_bytes());
}

}  // namespace

RankOperation::RankOperation(CollectiveSpec spec, std::uint32_t rank, std::uint32_t ranks, Tensor local,
                             TensorAllocator allocate)
    : spec_(std::move(spec)),
      rank_(rank),
      ranks_(ranks),
      // Tensors sent to everyone, or from one rank, are one part.
      cut_(spec_.elements(), size_of(spec_.dtype),
           spec_.kind == CollectiveKind::all_reduce && !is_direct() ? ranks : 1),
      allocate_(std::move(allocate)),
      missing_(ranks, 0) {
  const Shape flat{spec_.elements()};
  if (local.valid()) {
    if (local.unique() && spec_.kind == CollectiveKind::all_reduce && !is_direct()) total_ = local.reshaped(flat);
    local_ = local.reshaped(flat);
  }
  const bool ring = spec_.kind == CollectiveKind::broadcast || !is_direct();
  if (ring && !total_.valid()) {
    if (spec_.kind == CollectiveKind::broadcast && rank_ == spec_.root)
      total_ = local_;
    else
      total_ = allocate_(spec_.dtype, flat);
  }
  std::size_t slots = 0;
  if (ring && ranks_ > 1) {
    const std::uint32_t parts = spec_.kind == CollectiveKind::all_reduce ? ranks_ : 1;
    std::uint64_t pieces = 0;
    for (std::uint32_t p = 0; p < parts; ++p) {
      first_.push_back(slots);
      slots += 2 * std::size_t{cut_.pieces(p)};
      if (spec_.kind == CollectiveKind::broadcast) {
        pieces += rank_ == spec_.root ? 1 : broadcast_pieces();
      } else {
        pieces += (p != rank_ ? cut_.pieces(p) : 0) + (p != next() ? cut_.pieces(p) : 0);
      }
    }
    slots = std::max<std::size_t>(slots, 2);
    expect(previous(), pieces);
  } else if (!ring) {
    wholes_.resize(ranks_);
    wholes_[rank_] = local_;
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      first_.push_back(slots);
      slots += std::max<std::size_t>(cut_.pieces(0), 1);
      if (r != rank_) expect(r, std::max<std::uint64_t>(cut_.pieces(0), 1));
    }
  }
  seen_.assign(slots, false);
}

bool RankOperation::is_direct() const {
  if (spec_.kind != CollectiveKind::all_reduce) return spec_.kind != CollectiveKind::broadcast;
  return static_cast<std::size_t>(spec_.elements()) * size_of(spec_.dtype) <= kDirectBytes;
}

void RankOperation::expect(std::uint32_t from, std::uint64_t messages) {
  missing_[from] += messages;
  need_ += messages;
}

bool RankOperation::owes(std::uint32_t from) const {
  if (!awaits(from)) return false;
  if (spec_.kind == CollectiveKind::broadcast) return from == spec_.root;
  if (is_direct()) return true;
  // The first pieces of its own part.
  for (std::uint32_t k = 0; k < cut_.pieces(from); ++k)
    if (!seen_[first_[from] + 2 * std::size_t{k}]) return true;
  return false;
}

void RankOperation::send(std::vector<CollectiveMessage>& out, std::uint32_t to, std::uint32_t hop, std::uint32_t part,
                         std::uint32_t piece, Tensor tensor) const {
  out.push_back({rank_, to, hop, part, piece, std::move(tensor)});
}

void RankOperation::start(std::vector<CollectiveMessage>& out) {
  if (ranks_ == 1) return finish();
  if (spec_.kind == CollectiveKind::broadcast) {
    if (rank_ == spec_.root)
      for (std::uint32_t k = 0; k < broadcast_pieces(); ++k)
        send(out, next(), 0, 0, k, cut_.pieces(0) > 0 ? piece_of(local_, cut_.piece(0, k)) : Tensor());
  } else if (is_direct()) {
    for (std::uint32_t i = 1; i < ranks_; ++i) {
      const std::uint32_t to = (rank_ + i) % ranks_;
      for (std::uint32_t k = 0; k < cut_.pieces(0); ++k) send(out, to, 0, rank_, k, piece_of(local_, cut_.piece(0, k)));
      if (cut_.pieces(0) == 0) send(out, to, 0, rank_, 0, {});
    }
  } else {
    for (std::uint32_t k = 0; k < cut_.pieces(rank_); ++k)
      send(out, next(), 0, rank_, k, piece_of(local_, cut_.piece(rank_, k)));
  }
  if (done()) finish();
}

// Each expected message has its own entry in seen_. Throws for any other.
std::size_t RankOperation::slot_of(const CollectiveMessage& m) const {
  const auto wrong = [&] {
    invalid_argument("rank {} sent an invalid message for {}: part {}, piece {}, hop {}", m.from, spec_.describe(),
                     m.part, m.piece, m.hop);
  };
  if (spec_.kind == CollectiveKind::broadcast) {
    const std::uint32_t hop = rank_ == spec_.root ? ranks_ - 1 : distance(spec_.root) - 1;
    const std::uint32_t pieces = rank_ == spec_.root ? 1 : broadcast_pieces();
    if (m.from != previous() || m.part != 0 || m.hop != hop || m.piece >= pieces) wrong();
    return m.piece;
  }
  if (is_direct()) {
    if (m.from >= ranks_ || m.from == rank_ || m.part != m.from || m.hop != 0 ||
        m.piece >= std::max(cut_.pieces(0), 1u))
      wrong();
    return first_[m.part] + m.piece;
  }
  if (m.from != previous() || m.part >= ranks_ || m.piece >= cut_.pieces(m.part)) wrong();
  const bool sum = m.hop + 1 < ranks_;
  // The hop on which it leaves the previous rank.
  const std::uint32_t away = (distance(m.part) + ranks_ - 1) % ranks_;
  const std::uint32_t hop = sum ? away : ranks_ - 1 + distance(m.part);
  if (m.hop != hop || (!sum && m.part == next())) wrong();
  return first_[m.part] + 2 * std::size_t{m.piece} + (sum ? 0 : 1);
}

void RankOperation::check(const CollectiveMessage& m, std::size_t slot) const {
  if (seen_[slot])
    invalid_argument("{}: part {}, piece {}, hop {} of rank {} was received twice", spec_.describe(), m.part, m.piece,
                     m.hop, m.from);
  const bool word = spec_.elements() == 0 || (spec_.kind == CollectiveKind::broadcast && rank_ == spec_.root);
  const ElementRange range = word ? ElementRange{} : is_direct() ? cut_.piece(0, m.piece) : cut_.piece(m.part, m.piece);
  if (word ? m.tensor.valid() : m.tensor.dtype() != spec_.dtype || !(m.tensor.shape() == Shape{range.size()}))
    invalid_argument("{}: part {}, piece {} of rank {} must have {} elements, not {}{}", spec_.describe(), m.part,
                     m.piece, m.from, range.size(), name(m.tensor.dtype()), m.tensor.shape().to_string());
}

void RankOperation::take(CollectiveMessage message, std::vector<CollectiveMessage>& out) {
  const std::size_t slot = slot_of(message);
  check(message, slot);
  seen_[slot] = true;
  ++have_;
  --missing_[message.from];
  const bool ring = spec_.kind == CollectiveKind::broadcast || !is_direct();
  if (!ring)
    take_whole(message);
  else if (spec_.kind == CollectiveKind::all_reduce && message.hop + 1 < ranks_)
    take_sum(std::move(message), out);
  else if (spec_.kind != CollectiveKind::broadcast || rank_ != spec_.root)
    take_result_piece(message, out);
  if (done()) finish();
  // The root must know when it may release its tensor.
  if (done() && spec_.kind == CollectiveKind::broadcast && rank_ != spec_.root && next() == spec_.root)
    send(out, next(), ranks_ - 1, 0, 0, {});
}

// Adds this rank's values to a sum on its way around the ring.
void RankOperation::take_sum(CollectiveMessage m, std::vector<CollectiveMessage>& out) {
  const ElementRange range = cut_.piece(m.part, m.piece);
  const Tensor own = piece_of(local_, range);
  const bool last = m.hop + 2 == ranks_;
  Tensor sum = last                ? piece_of(total_, range)
               : m.tensor.unique() ? m.tensor
                                   : allocate_(spec_.dtype, Shape{range.size()});
  combine(spec_.reduction, m.tensor, own, last ? ranks_ : 1, sum);
  send(out, next(), m.hop + 1, m.part, m.piece, std::move(sum));
}

void RankOperation::take_result_piece(const CollectiveMessage& m, std::vector<CollectiveMessage>& out) {
  const ElementRange range = cut_.piece(m.part, m.piece);
  if (m.tensor.valid()) copy_into(total_, range, m.tensor);
  const std::uint32_t last_hop = spec_.kind == CollectiveKind::broadcast ? ranks_ - 2 : 2 * ranks_ - 3;
  if (m.hop < last_hop) send(out, next(), m.hop + 1, m.part, m.piece, m.tensor);
}

void RankOperation::take_whole(const CollectiveMessage& m) {
  if (!m.tensor.valid()) return;
  Tensor& whole = wholes_[m.from];
  if (cut_.pieces(0) == 1) {
    whole = m.tensor;
    return;
  }
  if (!whole.valid()) whole = allocate_(spec_.dtype, Shape{spec_.elements()});
  copy_into(whole, cut_.piece(0, m.piece), m.tensor);
}

// The result that the ring would compute.
void RankOperation::reduce_directly() {
  const CollectiveCut parts(spec_.elements(), size_of(spec_.dtype), ranks_);
  total_ = allocate_(spec_.dtype, Shape{spec_.elements()});
  for (std::uint32_t p = 0; p < ranks_; ++p) {
    const ElementRange range = parts.part(p);
    if (range.size() == 0) continue;
    Tensor sum = piece_of(total_, range);
    copy_into(sum, {0, range.size()}, piece_of(wholes_[p], range));
    for (std::uint32_t i = 1; i < ranks_; ++i)
      combine(spec_.reduction, sum, piece_of(wholes_[(p + i) % ranks_], range), i + 1 == ranks_ ? ranks_ : 1, sum);
  }
}

void RankOperation::finish() {
  switch (spec_.kind) {
    case CollectiveKind::barrier:
      break;
    case CollectiveKind::all_gather:
      for (Tensor& whole : wholes_)
        result_.push_back(whole.valid() ? whole.reshaped(spec_.shape) : Tensor(spec_.dtype, spec_.shape));
      break;
    case CollectiveKind::broadcast:
      result_.push_back(total_.reshaped(spec_.shape));
      break;
    case CollectiveKind::all_reduce:
      if (ranks_ == 1)
        total_ = local_;
      else if (is_direct())
        spec_.elements() > 0 ? reduce_directly() : void(total_ = local_);
      result_.push_back(total_.reshaped(spec_.shape));
  }
  local_ = total_ = Tensor();
  wholes_.clear();
}

}  // namespace troupe
