// troupe-data verify: reads every byte.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/data/commands.hpp"
#include "tools/data/progress.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/kernels/readers/npz.hpp>
#include <troupe/kernels/readers/zip.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::data_tool {
namespace {

constexpr std::size_t kShownDamage = 100;  // of a data set; the rest is counted

// Reads all members of an archive, also those that are no arrays, with their checksums.
void read_members(FileSystem& files, const std::string& path, ProgressBar& bar,
                  const std::function<void(const Error&)>& damaged) {
  try {
    const auto file = files.open(path);
    std::vector<std::byte> piece(std::size_t{1} << 20);
    for (const ZipEntry& entry : read_zip_directory(*file, path)) try {
        ZipMember member(*file, entry, path);
        for (std::uint64_t left = entry.size; left > 0;) {
          const auto part = std::span(piece).first(std::min<std::uint64_t>(piece.size(), left));
          member.read(part);
          left -= part.size();
          bar.update();
        }
        member.finish();
      } catch (const Error& error) {
        damaged(error);
      }
    NpzFile headers(files, path);
  } catch (const Error& error) {
    damaged(error);
  }
}

}  // namespace

int verify(FileSystem& files, const std::string& pattern, const Options& options) {
  CountingFiles counted(files);
  Walked walked;
  std::uint64_t damaged = 0;
  std::optional<ProgressBar> bar;
  const auto tell = [&](const Error& error) {
    if (bar) bar->clear();
    if (++damaged > kShownDamage) return;
    if (options.json)
      fmt::print("{}\n", json_text({{"damage", error.message()}, {"code", name(error.code())}}));
    else
      fmt::print("damaged: {}\n", error.message());
  };
  const bool npz = recognise(files, pattern, options.input) == Format::npz;
  std::uint64_t files_read = 0;
  if (npz) {
    const std::vector<std::string> paths = data_files_matching(counted, pattern);
    std::uint64_t all = 0;
    for (const std::string& path : paths) all += files.open(path)->size();
    bar.emplace("verifying", counted, all);
    for (const std::string& path : paths) read_members(counted, path, *bar, tell);
    files_read = paths.size();
  } else {
    try {
      InputOptions telling = options.input;
      telling.on_damage = tell;
      Input input = open_input(counted, pattern, telling);
      // Without a schema any Example or object will do: those that lack a feature are not damaged.
      if (options.input.schema.empty() && input.parser &&
          (input.format == Format::tfrecord || input.format == Format::jsonl)) {
        input.parser = well_formed(input.format);
        input.wanted = {0};
      }
      tell_notes(input);
      files_read = input.images ? input.images->size() : input.paths.size();
      bar.emplace("verifying", counted, bytes_of(files, input));
      const auto element = [&](data::Element&&) {
        bar->update();
        return true;
      };
      walked = walk(counted, input, {.element = element, .damage = tell});
    } catch (const Error& error) {
      if (error.code() != Code::data_loss) throw;
      tell(error);
    }
  }
  bar.reset();
  if (options.json)
    fmt::print("{}\n", json_text({{"path", pattern},
                                  {"files", files_read},
                                  {"elements", walked.elements},
                                  {"bytes", counted.bytes_read()},
                                  {"damaged", damaged}}));
  else
    fmt::print("{}: {}{}\n", pattern,
               npz ? fmt::format("{} file{}", files_read, files_read == 1 ? "" : "s")
                   : fmt::format("{} elements", walked.elements),
               damaged == 0         ? ", whole"
               : options.input.skip ? fmt::format(", {} damaged ones left out", damaged)
               : damaged > kShownDamage
                   ? fmt::format(", {} damaged, of which the first {} are shown", damaged, kShownDamage)
                   : fmt::format(", {} damaged", damaged));
  return damaged == 0 ? 0 : 1;
}

}  // namespace troupe::data_tool
