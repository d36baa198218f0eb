// Goes over all elements of a data set, file by file, and past what is damaged.
#include <fmt/format.h>

#include "tools/data/input.hpp"
#include <troupe/messages/error.hpp>

namespace troupe::data_tool {
namespace {

class Walker {
 public:
  Walker(FileSystem& files, const Input& input, const Walk& walk) : files_(files), input_(input), walk_(walk) {}

  Walked run() {
    if (input_.is_records()) {
      for (const std::string& path : input_.paths)
        if (!each_record(path)) break;
    } else if (input_.images) {
      each_of(*input_.images);
    } else {
      const data::Stage& stage = input_.source();
      if (const auto* indexed = std::get_if<data::IndexedStage>(&stage.kind))
        each_of(*indexed->source);
      else
        each_of(*std::get<data::SplitsStage>(stage.kind).source);
    }
    return walked_;
  }

 private:
  bool give(data::Element&& element) {
    ++walked_.elements;
    if (!walk_.element) return true;
    data::Element out;
    for (const std::size_t i : input_.wanted) out.push_back(std::move(element[i]));
    return walk_.element(std::move(out));
  }
  // Returns if reading may go on.
  void damaged(const Error& error) {
    const Code code = error.code();
    const bool is_damage = code == Code::data_loss || code == Code::resource_exhausted || code == Code::unimplemented;
    if (!walk_.damage || !is_damage) throw error;
    ++walked_.damaged;
    walk_.damage(error);
  }

  // Damage that its stream does not skip ends the file; a record that does not parse does not.
  bool each_record(const std::string& path) {
    std::uint64_t skipped = 0;
    try {
      const auto stream = input_.records->open(files_, path);
      std::string_view record;
      for (std::uint64_t at = stream->position(); stream->next(record); at = stream->position()) {
        data::Element element;
        try {
          element = input_.parser ? input_.parser->parse(record, {path, at})
                                  : data::Element{Tensor::scalar(std::string(record))};
        } catch (const Error& error) {
          damaged(error);
          continue;
        }
        if (!give(std::move(element))) return false;
      }
      skipped = stream->skipped();
    } catch (const Error& error) {
      damaged(error);
    }
    if (input_.records->records.on_damage) return true;
    for (; skipped > 0; --skipped) damaged({Code::data_loss, fmt::format("{}: a damaged record was left out", path)});
    return true;
  }

  void each_of(const data::IndexedSource& source) {
    for (std::uint64_t i = 0; i < source.size(); ++i) {
      data::Element element;
      try {
        element = source.read(i);
      } catch (const Error& error) {
        damaged(error);
        continue;
      }
      if (!give(std::move(element))) return;
    }
  }

  void each_of(const data::ElementSource& source) {
    for (std::uint64_t split = 0; split < source.splits(); ++split) try {
        const auto cursor = source.open(split);
        data::Element element;
        while (cursor->next(element))
          if (!give(std::move(element))) return;
      } catch (const Error& error) {
        damaged(error);
      }
  }

  FileSystem& files_;
  const Input& input_;
  const Walk& walk_;
  Walked walked_;
};

}  // namespace

Walked walk(FileSystem& files, const Input& input, const Walk& walk) { return Walker(files, input, walk).run(); }

}  // namespace troupe::data_tool
