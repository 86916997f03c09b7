#include "report/memory_text.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <tuple>

#include "memory_words.h"
#include "numbered_name.h"
#include "report/text_table.h"
#include "units.h"

namespace meshwright::host {

namespace {

constexpr std::size_t kCurveColumns = 96;
constexpr std::size_t kCurveRows = 12;
constexpr std::size_t kMostTensorRows = 16;
constexpr std::size_t kLabelWidth = 10;

std::string right(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

// Nothing where there is nothing, so that a table shows what matters.
std::string size_cell(std::int64_t bytes) { return bytes == 0 ? "" : size_text(bytes); }

std::string percent_of(std::int64_t part, std::int64_t whole) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%",
                whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text;
}

// --- the curve ---

// One row of the curve, whose full height is `rows` characters of eight eighths.
std::string curve_row(const std::vector<std::int64_t>& heights, std::size_t row) {
  static constexpr const char* kEighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  for (const std::int64_t height : heights)
    text += kEighths[std::clamp<std::int64_t>(height - static_cast<std::int64_t>(row) * 8, 0, 8)];
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

// "forward          |backward        |update"; a name is cut where its phase is shorter.
std::string phases_row(const Program& program, const MemoryProfile& profile, const std::vector<std::size_t>& columns) {
  std::string text;
  for (std::size_t i = 0; i < columns.size();) {
    const Occurrence& at = profile.curve[columns[i]].at;
    const std::size_t end = end_of_event(program, profile, columns, i);
    std::string part = (i > 0 ? "|" : "") + event_text(program, at);
    part.resize(end - i, ' ');
    text += part;
    i = end;
  }
  return text;
}

std::string curve_text(const Program& program, const MemoryProfile& profile) {
  const std::vector<std::size_t> columns = highest_of_columns(profile, kCurveColumns);
  if (columns.empty()) return "";
  const double peak = std::max<double>(1, static_cast<double>(profile.peak_bytes));
  std::vector<std::int64_t> heights;
  std::size_t peak_column = 0;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto bytes = static_cast<double>(profile.curve[columns[i]].held.sum());
    heights.push_back(static_cast<std::int64_t>(bytes / peak * static_cast<double>(kCurveRows * 8) + 0.5));
    if (columns[i] == profile.peak) peak_column = i;
  }
  std::string text = std::string(kLabelWidth + 2 + peak_column, ' ') + "v peak\n";
  for (std::size_t row = kCurveRows; row-- > 0;) {
    // The label stands at the upper edge of its row.
    const bool labelled = (row + 1) % 4 == 0;
    const auto bytes = static_cast<std::int64_t>(peak * static_cast<double>(row + 1) / static_cast<double>(kCurveRows));
    text += right(labelled ? size_text(bytes) : "", kLabelWidth) + (labelled ? " ┤" : " │") + curve_row(heights, row) +
            "\n";
  }
  text += std::string(kLabelWidth + 2, ' ') + phases_row(program, profile, columns) + "\n";
  const std::string left_out = left_out_text(program);
  return left_out.empty() ? text : text + std::string(kLabelWidth, ' ') + left_out + "\n";
}

// --- rows that stand for many ---

// What is alike but for one number, and how often.
struct Group {
  std::string pattern;  // of the name
  std::string name;     // of the first
  NameNumbers numbers;
  std::int64_t times = 0;

  void add(const std::string& number) {
    ++times;
    numbers.add(number);
  }
  [[nodiscard]] std::string text() const { return numbers.text(pattern); }
};

// Groups in the order of their first members.
template <class Item>
class Groups {
 public:
  struct Row {
    Group group;
    Item first;
  };

  // `rest`: what else two members of a group have in common.
  void add(const std::string& name, const std::string& rest, const Item& item) {
    const auto [pattern, number] = numbered_name(name);
    const auto [found, inserted] = numbers_.try_emplace(pattern + "\n" + rest, rows_.size());
    if (inserted) rows_.push_back({{pattern, name, {}, 0}, item});
    rows_[found->second].group.add(number);
  }
  std::vector<Row>& rows() { return rows_; }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<Row> rows_;
};

std::string more_text(std::size_t rows, std::size_t shown, const char* what) {
  return rows > shown ? "  ... and " + std::to_string(rows - shown) + " more " + what + "\n" : "";
}

std::string tensors_text(const MemoryProfile& profile) {
  std::map<std::string, const NodeMemory*> nodes;
  for (const NodeMemory& node : profile.nodes) nodes[node.name] = &node;
  Groups<HeldTensor> groups;
  for (const HeldTensor& tensor : profile.peak_tensors) {
    const auto node = nodes.find(tensor.node);
    const bool made = node != nodes.end() && tensor.kind != MemoryKind::gathered;
    const std::string from = made ? node->second->op + " " + node->second->module_path : tensor.name;
    groups.add(
        from,
        std::to_string(static_cast<int>(tensor.kind)) + to_string(tensor.type) + " " + std::to_string(tensor.copies),
        tensor);
  }
  auto& rows = groups.rows();
  const auto bytes = [](const auto& row) { return row.group.times * row.first.bytes; };
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) { return bytes(a) > bytes(b); });
  std::vector<std::vector<std::string>> table = {
      {"tensor", "kind", "type", "times", "bytes each", "bytes", "of the peak"}};
  for (std::size_t i = 0; i < std::min(rows.size(), kMostTensorRows); ++i) {
    const HeldTensor& tensor = rows[i].first;
    const bool names_itself = rows[i].group.times > 1 || rows[i].group.name == tensor.name;
    const std::string label = (names_itself ? "" : tensor.name + ": ") + rows[i].group.text();
    table.push_back({label, name(tensor.kind),
                     (tensor.copies > 1 ? std::to_string(tensor.copies) + " x " : "") + to_string(tensor.type),
                     std::to_string(rows[i].group.times), size_text(tensor.bytes), size_text(bytes(rows[i])),
                     percent_of(bytes(rows[i]), profile.peak_bytes)});
  }
  return "Tensors held at the peak (those that differ in the number of their layer share a row)\n" +
         table_text(table, 3) + more_text(rows.size(), kMostTensorRows, "kinds of tensors");
}

std::int64_t made_bytes(const NodeMemory& node) { return node.fwd_tmp + node.fwd_out + node.bwd_tmp + node.bwd_out; }

std::vector<std::string> node_cells(const std::string& label, const NodeMemory& node, std::int64_t times) {
  return {label,
          node.op,
          std::to_string(times),
          size_cell(node.fwd_in),
          size_cell(node.fwd_tmp),
          size_cell(node.fwd_out),
          size_cell(node.bwd_tmp),
          size_cell(node.bwd_out),
          size_cell(node.saved_bytes)};
}

std::string nodes_text(const MemoryProfile& profile, std::size_t most) {
  std::vector<std::vector<std::string>> table = {
      {"node", "op", "times", "fwd_in", "fwd_tmp", "fwd_out", "bwd_tmp", "bwd_out", "saved"}};
  if (most >= profile.nodes.size()) {
    for (const NodeMemory& node : profile.nodes) {
      table.push_back(node_cells(node.name + (node.module_path.empty() ? "" : ": " + node.module_path), node, 1));
    }
    return "Nodes, in the order in which they compute\n" + table_text(table, 2);
  }
  Groups<NodeMemory> groups;
  for (const NodeMemory& node : profile.nodes) {
    std::string rest = node.op;
    for (const std::int64_t bytes :
         {node.fwd_in, node.fwd_tmp, node.fwd_out, node.bwd_tmp, node.bwd_out, node.saved_bytes}) {
      rest += " " + std::to_string(bytes);
    }
    groups.add(node.module_path, rest, node);
  }
  auto& rows = groups.rows();
  const auto bytes = [](const auto& row) { return row.group.times * made_bytes(row.first); };
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) { return bytes(a) > bytes(b); });
  for (std::size_t i = 0; i < std::min(rows.size(), most); ++i) {
    const NodeMemory& node = rows[i].first;
    const std::string label = rows[i].group.times == 1
                                  ? node.name + (node.module_path.empty() ? "" : ": " + node.module_path)
                                  : rows[i].group.text();
    table.push_back(node_cells(label.empty() ? "the model itself" : label, node, rows[i].group.times));
  }
  return "Nodes that make most (those that differ in the number of their layer share a row; bytes are of one; --nodes "
         "all for each)\n" +
         table_text(table, 2) + more_text(rows.size(), most, "kinds of nodes");
}

}  // namespace

std::size_t end_of_event(const Program& program, const MemoryProfile& profile, const std::vector<std::size_t>& columns, std::size_t column) {
  const auto event = [&](std::size_t at) {
    const Occurrence& here = profile.curve[columns[at]].at;
    return StepEvent{program.instructions[here.instruction].phase, here.microbatch};
  };
  std::size_t end = column;
  while (end < columns.size() && event(end) == event(column)) ++end;
  return end;
}

std::string event_text(const Program& program, const Occurrence& at) {
  const Phase phase = program.instructions[at.instruction].phase;
  if (program.order.microbatches == 1 || phase == Phase::update) return name(phase);
  return std::string(name(phase)) + " " + std::to_string(at.microbatch);
}

std::string left_out_text(const Program& program) {
  if (shortened(program.order).gaps.empty()) return "";
  return "; of " + std::to_string(program.order.microbatches) + " microbatches those that repeat are drawn twice";
}

std::vector<std::size_t> highest_of_columns(const MemoryProfile& profile, std::size_t columns) {
  const std::size_t size = profile.curve.size(), count = std::min(columns, size);
  std::vector<std::size_t> highest;
  for (std::size_t column = 0; column < count; ++column) {
    const std::size_t end = (column + 1) * size / count;
    std::size_t best = column * size / count;
    for (std::size_t i = best + 1; i < end; ++i) {
      if (profile.curve[i].held.sum() > profile.curve[best].held.sum()) best = i;
    }
    highest.push_back(best);
  }
  return highest;
}

std::string peak_place(const Program& program, const MemoryProfile& profile) {
  if (profile.curve.empty()) return "a step that does nothing";
  const Occurrence& peak = profile.curve[profile.peak].at;
  const Instruction& at = program.instructions[peak.instruction];
  std::string text = "the " + std::string(name(at.phase)) + " of '" + profile.peak_node + "'";
  if (program.order.microbatches > 1) text += " in microbatch " + std::to_string(peak.microbatch);
  const auto node = std::find_if(profile.nodes.begin(), profile.nodes.end(),
                                 [&](const NodeMemory& here) { return here.name == at.node; });
  if (node == profile.nodes.end()) return text;
  return text + " (" + node->op + (node->module_path.empty() ? "" : " in " + node->module_path) + ")";
}

std::string peak_text(const Program& program, const MemoryProfile& profile) {
  std::string text = "Peak " + size_text(profile.peak_bytes) + " in " + peak_place(program, profile) + "\n";
  if (profile.curve.empty()) return text;
  const MemorySplit& split = profile.curve[profile.peak].held;
  std::vector<std::vector<std::string>> table;
  for (std::size_t kind = 0; kind < kMemoryKinds; ++kind) {
    if (split.bytes[kind] == 0) continue;
    table.push_back({name(static_cast<MemoryKind>(kind)), size_text(split.bytes[kind]),
                     percent_of(split.bytes[kind], profile.peak_bytes)});
  }
  return text + table_text(table, 1);
}

std::string account_text(const MemoryAccount& account, std::int64_t memory_bytes) {
  const std::vector<std::pair<std::string, std::int64_t>> overheads = overhead_rows(account);
  if (overheads.empty()) return "";
  std::vector<std::vector<std::string>> table = {{"tensors of the program", size_text(account.program_bytes)}};
  for (const auto& [name, bytes] : overheads) table.push_back({name, size_text(bytes)});
  const std::int64_t free = memory_bytes - account.total_bytes();
  table.push_back({free < 0 ? "lacking" : "free", size_text(free < 0 ? -free : free)});
  return "Of the " + size_text(memory_bytes) + " of a device\n" + table_text(table, 1);
}

std::string memory_text(const Program& program, const MemoryProfile& profile, std::size_t rows) {
  const std::int64_t devices = program.mesh.devices();
  std::string text =
      program.name + ", one training step on " +
      (devices == 1 ? "one device"
                    : "one of " + std::to_string(devices) + " devices, mesh " + to_string(program.mesh)) +
      "\n\n";
  text += curve_text(program, profile) + "\n" + peak_text(program, profile) + "\n";
  text += "Of the whole step\n" +
          table_text({{"parameters", size_text(profile.parameter_bytes)},
                      {"gradients", size_text(profile.gradient_bytes)},
                      {"optimizer state", size_text(profile.optimizer_bytes)},
                      {"saved for the backward", size_text(profile.saved_bytes)}},
                     1) +
          "\n";
  text += tensors_text(profile);
  if (rows > 0) text += "\n" + nodes_text(profile, rows);
  return text;
}

}  // namespace meshwright::host
