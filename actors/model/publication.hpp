// Versions of a model that are published for servers: which of them requests get, and which is tried out.
//
//   models/digits/3/, models/digits/4/      versions: models of any format (actors/model/any_model.hpp)
//   models/digits/publication.json          {"stable": 3, "canary": 4, "rejected": [2], ...}
//
//                       gates hold                  promote()
//   a trained model ──────────────▶ canary ──────────────────────▶ stable ──▶ (before)
//                                      │ rollback()                   │ rollback(): the one before is stable again
//                                      └────────────▶ rejected ◀──────┘
//
// The first version is stable at once: there is none that it could harm. Servers (actors/serving) look at the file as
// at the versions themselves; a directory without one serves its newest version. Any file system; one publisher at a
// time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/model/answer_change.hpp>
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/devices/storage/file_system.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

struct Publication {
  using Figures = std::map<std::string, double>;  // "val_accuracy"

  std::optional<std::int64_t> stable{}, canary{};
  std::vector<std::int64_t> before{};  // that were stable, the last one at the end
  std::set<std::int64_t> rejected{};
  std::map<std::int64_t, Figures> figures{};  // of versions, as they were published
};

// nullopt: the directory has no such file. Throws data_loss, naming the file, for one that is damaged.
std::optional<Publication> read_publication(FileSystem& files, const std::string& directory);
// "stable" and "canary", of those that there are.
std::map<std::string, std::int64_t> labels_of(const Publication& publication);

// A condition on a figure of a new version: "val_accuracy >= 0.95", "val_loss <= stable + 0.01", "val_auc >= stable".
// Without a stable version whose figure is known, a condition that compares with it holds.
class PublishGate {
 public:
  // Throws invalid_argument, saying what is expected.
  static PublishGate parse(std::string_view text);
  // Throws failed_precondition, with both numbers, if it does not hold; not_found for a figure that there is not.
  void check(const Publication::Figures& figures, const Publication::Figures* stable) const;

 private:
  std::string text_;
  std::string figure_;
  bool at_least_ = true;
  bool of_stable_ = false;
  double bound_ = 0;
};

struct PublishOptions {
  std::vector<PublishGate> gates{};
  // What is published; null: not compared with the stable version. Otherwise its clients must be able to go on: all
  // their signatures have to be there, and requests that were recorded (actors/model/recorded_requests.hpp) have to be
  // answered, no more than a share of them otherwise than before.
  const SavedModel* model = nullptr;
  double most_changed = 1;  // of the rows of answers (actors/model/answer_change.hpp)
  Publication::Figures figures{};
  bool promote = false;  // stable at once
  std::string suffix{};  // of the version's name: ".onnx" for a file
};
// Makes a version of `write`, which is called with the path of its directory, or of its file, that does not exist yet,
// and must write it whole. Throws errors of `write`, and before those of the gates,
// failed_precondition for what clients of the stable version would miss, and errors of answer_change(); and changes
// nothing then.
struct Published {
  std::int64_t version = 0;
  AnswerChange change{};  // against the stable version
};
Published publish_version(FileSystem& files, const std::string& directory, const PublishOptions& options,
                          const std::function<void(const std::string& path)>& write);

// The canary becomes stable. Returns its number. Throws failed_precondition without a canary.
std::int64_t promote(FileSystem& files, const std::string& directory);
// The canary is rejected; without one, the stable version is, and the one before is stable again. Returns the number of
// the version that is rejected. Throws failed_precondition if there is neither.
std::int64_t rollback(FileSystem& files, const std::string& directory);

// The path of a version: DIR/4, or DIR/4.onnx. Throws not_found.
std::string version_path(FileSystem& files, const std::string& directory, std::int64_t version);

}  // namespace troupe
