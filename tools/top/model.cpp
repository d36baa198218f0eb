#include "tools/top/model.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "tools/top/tables.hpp"
#include "tools/top/text.hpp"

namespace troupe::top {
namespace {

using Kind = Key::Kind;

constexpr std::size_t kLogColumns = 120;
constexpr std::size_t kRemembered = 240;  // answers kept for curves
constexpr std::size_t kAlarms = 3;        // lines of alarms

constexpr std::array kTitles = {"Summary", "Actors", "Devices", "Shards", "Edges", "Why", "Inputs", "Models"};

struct Help {
  const char* keys;
  const char* text;
};

constexpr std::array kHelp = {
    Help{"1 to 8, Tab",
         "summary, actors, devices, shards, edges of the data plane, why it waits, inputs: pipelines of data, "
         "models that are served"},
    Help{"s a d h e w i m", "the same screens by letter (h: shards)"},
    Help{"arrows, j k", "select a row; left and right scroll columns"},
    Help{"PgUp PgDn Home End", "scroll further"},
    Help{"Enter", "details of the row; for a task, its actors"},
    Help{"Esc, Backspace", "back"},
    Help{"/", "show only rows with these words; an empty filter shows all"},
    Help{"< >", "sort by another column; left of the first: the cluster's order"},
    Help{"r", "reverse the order"},
    Help{"p, Space", "pause"},
    Help{"+ -", "request snapshots less or more often"},
    Help{"? q", "these keys; quit"},
};

constexpr const char* kWords =
    "msg/s, busy and other rates are those between the last two answers; \"-\" is unknown (yet). peak: the maximum "
    "number of messages in the mailbox. busy: the share of time spent handling messages. parked: pulls that wait for a "
    "version. dropped: gradients that were duplicate, late, or from former members. late: the workers whose slots the "
    "next version waits for. credit: bytes of large tensors that may still be sent before the peer reads some.";

void keep(std::vector<double>& values, const Rate& value) {
  if (!value) return;
  values.push_back(*value);
  if (values.size() > kRemembered) values.erase(values.begin());
}

// "demo, 3 tasks, asked ps/0"
std::string name_of(const ClusterSnapshot& cluster) {
  const std::string asked = clean(shorten(cluster.asked));
  if (cluster.cluster.empty()) return asked + ", no cluster";
  return fmt::format("{}, {} task{}, asked {}", clean(cluster.cluster), cluster.tasks.size(),
                     cluster.tasks.size() == 1 ? "" : "s", asked);
}

}  // namespace

void Model::take(Observation observation) {
  const Totals all = totals(observation);
  keep(history_.steps, all.steps_per_second);
  keep(history_.examples, all.examples_per_second);
  keep(history_.bytes, all.bytes_per_second);
  observation_ = std::move(observation);
}

// ---- Selection

Table Model::whole_table() const {
  switch (screen_) {
    case Screen::summary:
      return tasks_table(*observation_);
    case Screen::actors:
      return actors_table(*observation_);
    case Screen::devices:
      return devices_table(*observation_);
    case Screen::shards:
      return shards_table(*observation_);
    case Screen::edges:
      return edges_table(*observation_);
    case Screen::inputs:
      return pipelines_table(*observation_);
    case Screen::models:
      return servables_table(*observation_);
    case Screen::why:
      break;
  }
  return {};
}

Table Model::table() {
  if (!observation_) return {};
  Table out = whole_table();
  if (screen_ == Screen::actors && !only_task_.empty())
    std::erase_if(out.rows, [&](const Row& row) { return observation_->snapshot.tasks[row.task].task != only_task_; });
  filter(out, view().filter);
  if (view().sorted) sort(out, *view().sorted, view().descending);
  return out;
}

// The current row of the selection; if it is gone, the row now at its place. The first row if none was selected yet.
std::size_t Model::selected(const Table& table) {
  View& own = view();
  if (table.rows.empty()) return 0;
  own.index = table.find(own.selected).value_or(std::min(own.index, table.rows.size() - 1));
  if (!own.selected.empty()) own.selected = table.rows[own.index].key;
  return own.index;
}

void Model::select(std::size_t row) {
  const Table now = table();
  if (now.rows.empty()) return;
  view().index = std::min(row, now.rows.size() - 1);
  view().selected = now.rows[view().index].key;
}

// ---- Keys

void Model::press(Key key) {
  if (typing_) return press_filter(key);
  switch (key.kind) {
    case Kind::character:
      return press_character(key.character);
    case Kind::enter:
      return enter();
    case Kind::escape:
    case Kind::backspace:
      return leave();
    case Kind::tab:
      return go(static_cast<Screen>((static_cast<std::size_t>(screen_) + 1) % kScreens));
    case Kind::back_tab:
      return go(static_cast<Screen>((static_cast<std::size_t>(screen_) + kScreens - 1) % kScreens));
    default:
      return move(key.kind);
  }
}

void Model::press_character(char character) {
  if (character >= '1' && character < '1' + static_cast<int>(kScreens)) return go(static_cast<Screen>(character - '1'));
  switch (character) {
    case 's':
      return go(Screen::summary);
    case 'a':
      return go(Screen::actors);
    case 'd':
      return go(Screen::devices);
    case 'h':
      return go(Screen::shards);
    case 'e':
      return go(Screen::edges);
    case 'w':
      return go(Screen::why);
    case 'i':
      return go(Screen::inputs);
    case 'm':
      return go(Screen::models);
    case 'j':
      return move(Kind::down);
    case 'k':
      return move(Kind::up);
    case '<':
      return move_sort(-1);
    case '>':
      return move_sort(+1);
    case 'r':
      view().descending = !view().descending;
      return;
    case 'p':
    case ' ':
      paused_ = !paused_;
      return;
    case '+':
      interval_ = std::min(interval_ * 2, 60.0);
      return;
    case '-':
      interval_ = std::max(interval_ / 2, kLeastInterval);
      return;
    case 'q':
      ended_ = true;
      return;
    case '/':
      if (has_table()) typing_ = true, over_ = Over::none;
      return;
    case '?':
      over_ = over_ == Over::help ? Over::none : Over::help;
      over_top_ = 0;
      return;
    default:
      return;
  }
}

void Model::press_filter(Key key) {
  std::string& words = view().filter;
  if (key.kind == Kind::character && key.character >= ' ' && words.size() < 60) words += key.character;
  if (key.kind == Kind::backspace && !words.empty()) words.pop_back();
  if (key.kind == Kind::escape) words.clear();
  if (key.kind == Kind::escape || key.kind == Kind::enter) typing_ = false;
  view().top = 0;
}

void Model::go(Screen screen) {
  screen_ = screen;
  over_ = Over::none;
  only_task_.clear();
}

void Model::move(Kind kind) {
  const auto moved = [&](std::size_t at) -> std::size_t {
    switch (kind) {
      case Kind::up:
        return at - std::min<std::size_t>(at, 1);
      case Kind::down:
        return at + 1;
      case Kind::page_up:
        return at - std::min(at, rows_);
      case Kind::page_down:
        return at + rows_;
      case Kind::home:
        return 0;
      case Kind::end:
        return SIZE_MAX / 2;
      default:
        return at;
    }
  };
  if (over_ != Over::none) {
    over_top_ = moved(over_top_);
    return;
  }
  View& own = view();
  if (!has_table()) {
    own.top = moved(own.top);
    return;
  }
  const Table now = table();
  if (kind == Kind::left) own.first_column -= std::min<std::size_t>(own.first_column, 1);
  if (kind == Kind::right && now.fixed + own.first_column + 1 < now.columns.size()) ++own.first_column;
  if (kind != Kind::left && kind != Kind::right) select(moved(selected(now)));
}

void Model::move_sort(int by) {
  if (!observation_ || !has_table()) return;
  const int columns = static_cast<int>(whole_table().columns.size());
  const int at = view().sorted ? static_cast<int>(*view().sorted) : -1;
  const int next = (at + 1 + by + columns + 1) % (columns + 1) - 1;
  view().sorted = next < 0 ? std::nullopt : std::optional(static_cast<std::size_t>(next));
}

void Model::enter() {
  if (!observation_ || over_ != Over::none || !has_table()) return;
  const Table now = table();
  if (now.rows.empty()) return;
  const Row& row = now.rows[selected(now)];
  if (screen_ == Screen::summary) {
    const TaskReport& report = observation_->snapshot.tasks[row.task];
    if (!report.snapshot) return;  // its actors are unknown
    go(Screen::actors);
    only_task_ = report.task;
    return;
  }
  view().selected = row.key;
  over_ = Over::details;
  over_top_ = 0;
}

// Leaves the screen entered last.
void Model::leave() {
  if (over_ != Over::none)
    over_ = Over::none;
  else if (!view().filter.empty())
    view().filter.clear();
  else if (screen_ == Screen::actors && !only_task_.empty())
    go(Screen::summary);
}

// ---- Lines

Lines Model::page(const Asked& asked) {
  Lines out = head(asked);
  const std::size_t used = out.size() + 1;
  const std::size_t height = size_.height > used ? size_.height - used : 0;
  Lines middle = body(height);
  middle.resize(height);
  for (Line& line : middle) out.push_back(std::move(line));
  out.push_back(foot());
  if (out.size() > size_.height) out.resize(size_.height);
  for (Line& line : out) line = cut(line, size_.width);
  return out;
}

Lines Model::head(const Asked& asked) const {
  std::string left = " troupe-top", right;
  if (observation_) left += "  " + name_of(observation_->snapshot);
  if (asked.waiting && (*asked.waiting > 1 || !asked.age))
    right = fmt::format("asked {:.1f} s ago, no answer yet ", *asked.waiting);
  else if (asked.ended)
    right = "END of the recording ";
  else if (paused_)
    right = "PAUSED ";
  else if (asked.age)
    right = fmt::format("{:.1f} s old, every {:g} s ", *asked.age, interval_);
  const std::size_t room = size_.width > width(right) ? size_.width - width(right) : 0;
  Lines out = {{{fit(left, room) + right, Style::heading}}};
  Line tabs = {{" "}};
  for (std::size_t i = 0; i < kScreens; ++i) {
    const bool here = static_cast<std::size_t>(screen_) == i;
    tabs.push_back({fmt::format("{}{} {}{}", here ? "[" : " ", i + 1, kTitles[i], here ? "]" : " "),
                    here ? Style::strong : Style::dim});
  }
  out.push_back(std::move(tabs));
  if (!asked.error.empty()) out.push_back({{"! no answer: " + clean(asked.error), Style::bad}});
  if (!observation_ || (screen_ == Screen::summary && over_ == Over::none)) return out;  // the summary shows it itself
  Lines wrong = alarms(*observation_, size_.width);
  if (wrong.size() > kAlarms) {
    const std::size_t more = wrong.size() - kAlarms + 1;
    wrong.resize(kAlarms - 1);
    wrong.push_back({{fmt::format("! and {} more tasks", more), Style::bad}});
  }
  for (Line& line : wrong) out.push_back(std::move(line));
  return out;
}

Lines Model::body(std::size_t height) {
  if (over_ == Over::help) {
    Lines lines;
    for (const Help& help : kHelp) lines.push_back({{fit(help.keys, 20), Style::strong}, {help.text}});
    lines.push_back({});
    for (std::string& line : wrap(kWords, size_.width)) lines.push_back({{std::move(line), Style::dim}});
    return scrolled(std::move(lines), over_top_, height);
  }
  if (!observation_) return {{}, {{" Waiting for the first answer."}}};
  if (over_ == Over::details) return scrolled(details(), over_top_, height);
  if (screen_ == Screen::why) return scrolled(why(observation_->waits.text, size_.width), view().top, height);
  return table_body(height);
}

Lines Model::table_body(std::size_t height) {
  Lines out;
  if (screen_ == Screen::summary) out = summary(*observation_, history_, size_.width);
  if (screen_ == Screen::summary) out.push_back({});
  const Table now = table();
  View& own = view();
  if (!only_task_.empty() && screen_ == Screen::actors)
    out.push_back({{"actors of " + clean(shorten(only_task_)), Style::strong}});
  if (!own.filter.empty() || typing_)
    out.push_back(
        {{fmt::format("filter \"{}\": {} of {} rows", clean(own.filter), now.rows.size(), whole_table().rows.size()),
          Style::warn}});
  const std::size_t used = out.size() + 2;  // titles; the line of the selected row
  rows_ = height > used ? height - used : 1;
  const std::size_t at = selected(now);
  own.top = std::min(own.top, now.rows.size() - std::min(now.rows.size(), rows_));
  own.top = std::clamp(own.top, at + 1 - std::min(at + 1, rows_), at);
  for (Line& line : lay_out(now, {.width = size_.width,
                                 .first_column = own.first_column,
                                 .sorted = own.sorted,
                                 .descending = own.descending,
                                 .top = own.top,
                                 .rows = rows_,
                                 .selected = at}))
    out.push_back(std::move(line));
  if (now.rows.empty()) {
    out.push_back({{own.filter.empty() ? " None." : " No row has these words.", Style::dim}});
    return out;
  }
  const auto elastic = std::ranges::find_if(now.columns, &Column::elastic);
  out.resize(std::max(out.size(), height - std::min<std::size_t>(height, 1)));
  if (elastic == now.columns.end()) return out;
  const std::string& all = now.rows[at].cells[static_cast<std::size_t>(elastic - now.columns.begin())].text;
  std::string what = now.rows[at].cells[0].text;
  if (now.fixed > 1) what += " " + now.rows[at].cells[1].text;
  if (!all.empty()) out.push_back({{fmt::format(" {}: ", what), Style::dim}, {all}});
  return out;
}

Lines Model::details() {
  const Table now = whole_table();
  const auto row = now.find(view().selected);
  if (!row) return {{{"It no longer exists. Esc: back", Style::warn}}};
  const auto [task, item] = std::pair(now.rows[*row].task, now.rows[*row].item);
  switch (screen_) {
    case Screen::actors:
      return actor_details(*observation_, task, item, size_.width);
    case Screen::devices:
      return device_details(*observation_, task, item, size_.width);
    case Screen::shards:
      return shard_details(*observation_, task, item, size_.width);
    case Screen::edges:
      return edge_details(*observation_, task, item, size_.width);
    case Screen::inputs:
      return pipeline_details(*observation_, task, item, size_.width);
    case Screen::models:
      return servable_details(*observation_, task, item, size_.width);
    default:
      return {};
  }
}

Lines Model::scrolled(Lines lines, std::size_t& top, std::size_t height) {
  rows_ = std::max<std::size_t>(height, 1);
  top = std::min(top, lines.size() - std::min(lines.size(), height));
  lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(top));
  if (lines.size() > height && height > 0) {
    const std::size_t below = lines.size() - height + 1;
    lines.resize(height);
    lines.back() = {{fmt::format("({} more lines: Down, PgDn)", below), Style::dim}};
  }
  return lines;
}

Line Model::foot() const {
  if (typing_)
    return {{fmt::format(" / {}_", clean(views_[static_cast<std::size_t>(screen_)].filter)), Style::strong},
            {"   Enter keep  Esc drop", Style::dim}};
  if (over_ != Over::none) return {{" Esc back  Up Down PgUp PgDn scroll  p pause  ? help  q quit", Style::heading}};
  if (!has_table()) return {{" Up Down PgUp PgDn scroll  1-8 Tab screens  p pause  ? help  q quit", Style::heading}};
  return {{" Enter in  Esc back  / filter  < > sort  r reverse  p pause  ? help  q quit", Style::heading}};
}

std::string whole_text(const Observation& observation) {
  Lines out;
  const auto add = [&](const char* title, Lines lines) {
    if (!out.empty()) out.push_back({});
    out.push_back({{title}});
    for (Line& line : lines) out.push_back(std::move(line));
  };
  const ClusterSnapshot& snapshot = observation.snapshot;
  const auto table = [](const Table& all) { return lay_out(all, {.width = kLogColumns, .whole = true}); };
  out.push_back({{name_of(snapshot)}});
  for (Line& line : summary(observation, {}, kLogColumns)) out.push_back(std::move(line));
  add("TASKS", table(tasks_table(observation)));
  add("ACTORS", table(actors_table(observation)));
  add("DEVICES", table(devices_table(observation)));
  add("LARGEST TENSORS", table(tensors_table(observation)));
  add("SHARDS", table(shards_table(observation)));
  if (const Table pipelines = pipelines_table(observation); !pipelines.rows.empty()) add("INPUTS", table(pipelines));
  if (const Table models = servables_table(observation); !models.rows.empty()) add("MODELS", table(models));
  add("EDGES", table(edges_table(observation)));
  add("WHY", why(observation.waits.brief, kLogColumns));
  return plain_text(out);
}

}  // namespace troupe::top
