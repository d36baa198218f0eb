// Sources of snapshots: a cluster or a file.
#pragma once

#include <string>
#include <vector>

#include <troupe/actors/introspection/observer.hpp>

namespace troupe::top {

class SnapshotSource {
 public:
  virtual ~SnapshotSource() = default;
  // Blocks. Throws Error if no task answers.
  virtual ClusterSnapshot cluster() = 0;
  // Whether the last snapshot was the final one.
  virtual bool ended() const { return false; }
};

class LiveSource final : public SnapshotSource {
 public:
  // Same options as Observer.
  explicit LiveSource(Observer::Options options) : observer_(std::move(options)) {}
  ClusterSnapshot cluster() override { return observer_.snapshot(); }

 private:
  Observer observer_;
};

// Snapshots printed by `troupe-top --json`, one per line: each call returns the next one.
class RecordedSource final : public SnapshotSource {
 public:
  // Throws not_found, and invalid_argument naming a line that is not a snapshot.
  static RecordedSource read(const std::string& path);
  explicit RecordedSource(std::vector<ClusterSnapshot> snapshots) : snapshots_(std::move(snapshots)) {}
  void keep_last(std::size_t count);  // keeps the last `count` snapshots; at least one
  ClusterSnapshot cluster() override;
  bool ended() const override { return next_ == snapshots_.size(); }

 private:
  std::vector<ClusterSnapshot> snapshots_;  // not empty
  std::size_t next_ = 0;
};

}  // namespace troupe::top
