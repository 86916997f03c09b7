#include "module_text.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <span>

#include "members_text.h"
#include "op_groups.h"
#include "meshwright/gather_units.h"
#include "python_text.h"
#include "source_lines.h"

namespace meshwright::torch {

namespace {

constexpr std::size_t kSmallestBlock = 4;  // statements

// "TransformerH" of "transformer.h.0"
std::string class_name(const std::string& block) {
  std::vector<std::string> parts = split(block);
  std::string name;
  parts.pop_back();
  const std::size_t first = parts.size() > 2 ? parts.size() - 2 : 0;
  for (std::size_t i = first; i < parts.size(); ++i) {
    bool upper = true;
    for (const char c : parts[i]) {
      const auto letter = static_cast<unsigned char>(c);
      if (std::isalnum(letter) == 0) upper = true;
      else name += upper ? static_cast<char>(std::toupper(letter)) : c;
      if (std::isalnum(letter) != 0) upper = false;
    }
  }
  return identifier(name + "Block");
}

class Classes {
 public:
  Classes(Forward forward, const std::string& docstring, const std::vector<std::string>& recomputed)
      : forward_(std::move(forward)), docstring_(docstring), recomputed_(recomputed) {}

  ModuleText run() {
    gather_blocks();
    find_blocks();
    find_flow();
    share_classes();
    for (Block& block : blocks_) define(block);
    define_model();
    find_unknown();
    return std::move(made_);
  }

 private:
  using Statements = std::vector<Statement>;

  // What stands among a block's statements and needs none of them (a mask that the first layer makes) goes before them.
  void gather_blocks() {
    std::vector<std::string> prefixes;
    for (const Statement& statement : forward_.statements) {
      const std::string prefix = block_of(statement.module);
      if (!prefix.empty() && std::find(prefixes.begin(), prefixes.end(), prefix) == prefixes.end()) prefixes.push_back(prefix);
    }
    for (const std::string& prefix : prefixes) gather(prefix);
  }

  void gather(const std::string& prefix) {
    Statements& statements = forward_.statements;
    const auto is_part = [&](const Statement& statement) { return block_of(statement.module) == prefix; };
    const auto begin = std::find_if(statements.begin(), statements.end(), is_part);
    const auto end = std::find_if(statements.rbegin(), statements.rend(), is_part).base();
    std::set<ProgramValueId> made_behind, read_by_others;
    for (auto at = begin; at != end; ++at) {
      const std::vector<ProgramValueId> read = values_in(at->text);
      if (!is_part(*at)) read_by_others.insert(read.begin(), read.end());
    }
    Statements before, behind;
    for (auto at = begin; at != end; ++at) {
      // What is made for others, and is converted for the block first of all.
      const bool serves_others = at->converts && std::ranges::any_of(at->results, [&](ProgramValueId value) { return read_by_others.contains(value); });
      bool needs = (is_part(*at) && !serves_others) || at->results.empty();
      for (const ProgramValueId value : values_in(at->text)) needs |= made_behind.contains(value);
      if (serves_others && !needs) at->module.clear();
      if (needs) made_behind.insert(at->results.begin(), at->results.end());
      (needs ? behind : before).push_back(std::move(*at));
    }
    std::move(behind.begin(), behind.end(), std::move(before.begin(), before.end(), begin));
  }

  // The longest run of each numbered module; what is left of it elsewhere stays in the model's forward.
  void find_blocks() {
    const Statements& statements = forward_.statements;
    std::map<std::string, std::pair<std::size_t, std::size_t>> longest;
    for (std::size_t begin = 0; begin < statements.size();) {
      const std::string prefix = block_of(statements[begin].module);
      std::size_t end = begin + 1;
      while (end < statements.size() && block_of(statements[end].module) == prefix) ++end;
      auto& [from, to] = longest[prefix];
      if (end - begin > to - from) std::tie(from, to) = std::make_pair(begin, end);
      begin = end;
    }
    for (const auto& [prefix, run] : longest) {
      if (prefix.empty() || run.second - run.first < kSmallestBlock) continue;
      if (mentions_others(prefix, run.first, run.second)) continue;
      blocks_.push_back({prefix, run.first, run.second, {}, {}, {}});
    }
    std::sort(blocks_.begin(), blocks_.end(), [](const Block& a, const Block& b) { return a.begin < b.begin; });
  }

  // A block whose statements need members of other modules can't be a class.
  bool mentions_others(const std::string& prefix, std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i) {
      for (const std::string& member : members_in(forward_.statements[i].text)) {
        if (!member.starts_with(prefix + ".")) return true;
      }
    }
    return false;
  }

  void find_flow() {
    std::map<ProgramValueId, std::size_t> last_use;
    for (std::size_t i = 0; i < forward_.statements.size(); ++i) {
      for (const ProgramValueId value : values_in(forward_.statements[i].text)) last_use[value] = i;
    }
    for (const std::string& output : forward_.outputs) {
      for (const ProgramValueId value : values_in(output)) last_use[value] = forward_.statements.size();
    }
    for (Block& block : blocks_) {
      block.arguments = arguments_of(statements_of(block));
      for (std::size_t i = block.begin; i < block.end; ++i) {
        for (const ProgramValueId result : forward_.statements[i].results) {
          const auto last = last_use.find(result);
          if (result != kNoId && last != last_use.end() && last->second >= block.end) block.results.push_back(result);
        }
      }
    }
  }

  std::span<const Statement> statements_of(const Block& block) const {
    return std::span(forward_.statements).subspan(block.begin, block.end - block.begin);
  }

  static std::vector<ProgramValueId> arguments_of(std::span<const Statement> statements) {
    std::vector<const Statement*> all;
    for (const Statement& statement : statements) all.push_back(&statement);
    return read_from_outside(all);
  }

  // Blocks that run again and are no classes, and ops that do and whose results leave their class, or that stand in none.
  void find_unknown() {
    std::set<std::string> ops;
    for (const Statement& statement : forward_.statements) ops.insert(statement.node);
    for (const std::string& wanted : recomputed_) {
      if (std::ranges::find(blocks_, wanted, &Block::prefix) == blocks_.end() && !ops.contains(wanted)) made_.unknown.push_back(wanted);
    }
    for (std::size_t i = 0; i < forward_.statements.size(); ++i) {
      const Statement& statement = forward_.statements[i];
      const auto block = std::ranges::find_if(blocks_, [&](const Block& each) { return each.begin <= i && i < each.end; });
      const auto leaves = [&](ProgramValueId value) {
        return forward_.made_again.contains(value) && std::ranges::find(block->results, value) != block->results.end();
      };
      if (statement.again != kNoId && (block == blocks_.end() || std::ranges::any_of(statement.results, leaves))) made_.unknown.push_back(statement.node);
    }
  }

  // Blocks that differ in nothing but how they cut what they are given become one class: they are then given it cut.
  void share_classes() {
    std::vector<Uncut> uncut;
    std::map<std::string, std::set<std::string>> ways;  // of cutting, by the text without
    for (const Block& block : blocks_) {
      uncut.push_back(without_cuts(block));
      ways[uncut.back().text].insert(class_text(block.prefix, statements_of(block), block.arguments, block.results));
    }
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (uncut[i].cuts.empty() || ways[uncut[i].text].size() == 1) continue;
      auto to = forward_.statements.begin() + static_cast<std::ptrdiff_t>(blocks_[i].begin);
      to = std::move(uncut[i].cuts.begin(), uncut[i].cuts.end(), to);
      std::move(uncut[i].rest.begin(), uncut[i].rest.end(), to);
      blocks_[i].begin += uncut[i].cuts.size();
      blocks_[i].arguments = arguments_of(statements_of(blocks_[i]));
    }
  }

  struct Uncut {
    Statements cuts, rest;
    std::string text;  // of the class that has the rest
  };

  Uncut without_cuts(const Block& block) const {
    Uncut made;
    const bool has_groups = !op_groups(statements_of(block), forward_).empty();  // which cut what they are given once more
    const auto is_argument = [&](ProgramValueId value) { return std::ranges::find(block.arguments, value) != block.arguments.end(); };
    const auto is_result = [&](ProgramValueId value) { return std::ranges::find(block.results, value) != block.results.end(); };
    for (const Statement& statement : statements_of(block)) {
      const std::vector<ProgramValueId> read = values_in(statement.text);
      const bool cuts = !has_groups && statement.converts && members_in(statement.text).empty() && std::ranges::all_of(read, is_argument) &&
                        std::ranges::none_of(statement.results, is_result);
      Statement& kept = (cuts ? made.cuts : made.rest).emplace_back(statement);
      if (cuts) kept.module.clear();
    }
    made.text = class_text(block.prefix, made.rest, arguments_of(made.rest), block.results);
    return made;
  }

  std::string rendered(const std::string& text, Names& names, const std::string& prefix) const {
    return without_marks(text, [&](ProgramValueId value) { return names.of(value, forward_.program); },
                         [&](const std::string& member) { return self_path(relative(member, prefix)); });
  }

  std::string assigned(const std::vector<ProgramValueId>& results, Names& names) const {
    std::vector<std::string> left;
    bool read = false;
    for (const ProgramValueId result : results) {
      read |= result != kNoId;
      left.push_back(result == kNoId ? "_" : names.of(result, forward_.program));
    }
    return read ? join(left) + " = " : "";
  }

  // One statement, with a remark where another part of the model begins than `part`.
  std::string line(const Statement& statement, Names& names, const std::string& prefix, std::string& part, std::size_t depth = 8) const {
    const std::string indent(depth, ' ');
    const std::vector<std::string> inside = split(relative(statement.module, prefix));
    const std::string here = inside.empty() ? "" : inside.size() > 1 && prefix.empty() ? inside[0] + "." + inside[1] : inside[0];
    const std::string remark = here != part && !here.empty() ? indent + "# " + comment(here) + "\n" : "";
    part = here;
    // What is mentioned is named before what is made.
    const std::string right = rendered(statement.text, names, prefix);
    return remark + wrapped(indent, assigned(statement.results, names) + right);
  }

  // The model's forward, up to what it returns.
  std::string body(Names& names) {
    std::string text, part;
    for (std::size_t i = 0; i < forward_.statements.size(); ++i) {
      const auto block = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& here) { return here.begin == i; });
      if (block == blocks_.end()) {
        text += line(forward_.statements[i], names, "", part);
        continue;
      }
      text += calls(static_cast<std::size_t>(block - blocks_.begin()), names, i);
      part.clear();
    }
    return text;
  }

  // The call of a block, or a loop over neighbours of one class of which each takes what the one before gave. `at` becomes
  // the last statement that is said with it.
  std::string calls(std::size_t first, Names& names, std::size_t& at) {
    const Block& block = blocks_[first];
    std::size_t last = first;
    std::size_t carried = block.arguments.size();
    while (last + 1 < blocks_.size() && follows(blocks_[last], blocks_[last + 1], carried)) ++last;
    at = blocks_[last].end - 1;
    const std::string indent(8, ' ');
    if (last < first + 2) {
      at = block.end - 1;
      return call(block, self_path(block.prefix), indent, names);
    }
    std::vector<std::string> arguments;
    for (const ProgramValueId argument : block.arguments) arguments.push_back(names.of(argument, forward_.program));
    const std::string through = arguments[carried];
    names.take(blocks_[last].results[0], through + "_out");
    const std::string result = names.of(blocks_[last].results[0], forward_.program);
    const std::vector<std::string> path = split(block.prefix);
    const std::string container = block.prefix.substr(0, block.prefix.rfind('.'));
    const std::string range = "range(" + (path.back() == "0" ? "" : path.back() + ", ") + std::to_string(std::stoul(split(blocks_[last].prefix).back()) + 1) + ")";
    arguments[carried] = result;
    std::string text = indent + result + " = " + through + "\n" + indent + "for i in " + range + ":\n";
    const std::string callee = self_path(container) + "[i]";
    text += wrapped(indent + "    ", result + " = " + called(block, callee, arguments));
    return text;
  }

  // Whether `next` is the next block of a loop: same class and neighbour in the same container; all arguments are the same
  // but one, `carried`, which is what `block` gives.
  bool follows(const Block& block, const Block& next, std::size_t& carried) {
    if (next.class_name != block.class_name || next.begin != block.end || block.results.size() != 1 || next.results.size() != 1) return false;
    if (runs_again(block) != runs_again(next)) return false;
    std::vector<std::string> here = split(block.prefix), there = split(next.prefix);
    if (!is_number(here.back()) || !is_number(there.back())) return false;  // "encoder_layer_0": no container's member
    if (std::stoul(there.back()) != std::stoul(here.back()) + 1) return false;
    here.pop_back();
    there.pop_back();
    if (here != there || block.arguments.size() != next.arguments.size()) return false;
    std::size_t differs = next.arguments.size();
    for (std::size_t i = 0; i < next.arguments.size(); ++i) {
      if (next.arguments[i] == block.arguments[i]) continue;
      if (differs < next.arguments.size() || next.arguments[i] != block.results[0]) return false;
      differs = i;
    }
    if (differs == next.arguments.size() || (carried < next.arguments.size() && carried != differs)) return false;
    // Nobody else reads what it gives.
    for (std::size_t i = next.end; i < forward_.statements.size(); ++i) {
      const std::vector<ProgramValueId> read = values_in(forward_.statements[i].text);
      if (std::find(read.begin(), read.end(), block.results[0]) != read.end()) return false;
    }
    for (const std::string& output : forward_.outputs) {
      const std::vector<ProgramValueId> read = values_in(output);
      if (std::find(read.begin(), read.end(), block.results[0]) != read.end()) return false;
    }
    carried = differs;
    return true;
  }

  std::string call(const Block& block, const std::string& callee, const std::string& indent, Names& names) {
    std::vector<std::string> arguments;
    for (const ProgramValueId argument : block.arguments) arguments.push_back(names.of(argument, forward_.program));
    return wrapped(indent, assigned(block.results, names) + called(block, callee, arguments));
  }

  // A block with these arguments, computed again in the backward if the plan says so.
  std::string called(const Block& block, const std::string& callee, std::vector<std::string> arguments) {
    if (!runs_again(block)) return callee + "(" + join(arguments) + ")";
    arguments.insert(arguments.begin(), callee);
    return "recomputed(" + join(arguments) + ")";
  }

  [[nodiscard]] bool runs_again(const Block& block) const { return std::ranges::find(recomputed_, block.prefix) != recomputed_.end(); }

  // --- classes ---

  // What stands below a class's head.
  std::string class_text(const std::string& prefix, std::span<const Statement> statements, const std::vector<ProgramValueId>& arguments,
                         const std::vector<ProgramValueId>& returned) const {
    Names names(forward_.prelude.names());
    const std::vector<OpGroup> groups = op_groups(statements, forward_);
    std::string text = "    def __init__(self):\n        super().__init__()\n" + members_text(forward_.members, blocks_, prefix) + "\n";
    text += groups.empty() ? "    def forward(self" : "    @runs_again\n    def forward(self, again";
    text += (arguments.empty() ? "" : ", " + named(arguments, names)) + "):\n";
    const auto group_of = [&](std::size_t statement) {
      return std::ranges::find_if(groups, [&](const OpGroup& group) { return std::ranges::binary_search(group.statements, statement); });
    };
    std::string part;
    auto before = groups.end();
    for (std::size_t i = 0; i < statements.size(); ++i) {
      const auto group = group_of(i);
      if (group != before && group != groups.end()) text += "        with again(" + std::to_string(group - groups.begin()) + "):\n";
      before = group;
      text += line(statements[i], names, prefix, part, group == groups.end() ? 8 : 12);
    }
    std::string functions;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const std::string function = unused_member("again_" + std::to_string(i), prefix), results = named_tuple(groups[i].results, names);
      text += wrapped("        ", "again.by(" + std::to_string(i) + ", self." + function + ", " + named_tuple(groups[i].inputs, names) + ", " + results + ")");
      functions += "\n    def " + function + "(self" + (groups[i].inputs.empty() ? "" : ", " + named(groups[i].inputs, names)) + "):\n";
      part.clear();
      for (const std::size_t statement : groups[i].statements) functions += line(statements[statement], names, prefix, part);
      functions += wrapped("        ", "return " + results);
    }
    return text + "        return " + named(returned, names) + "\n" + functions;
  }

  std::string named(const std::vector<ProgramValueId>& values, Names& names) const {
    std::vector<std::string> texts;
    for (const ProgramValueId value : values) texts.push_back(names.of(value, forward_.program));
    return join(texts);
  }

  std::string named_tuple(const std::vector<ProgramValueId>& values, Names& names) const {
    return "(" + named(values, names) + (values.size() == 1 ? ",)" : ")");
  }

  // A name that no member of a block has.
  std::string unused_member(std::string name, const std::string& prefix) const {
    const auto is_it = [&](const Member& member) { return (relative(member.path, prefix) + ".").starts_with(name + "."); };
    while (std::ranges::any_of(forward_.members, is_it)) name += "_";
    return name;
  }

  void define(Block& block) {
    const std::string text = class_text(block.prefix, statements_of(block), block.arguments, block.results);
    const auto [known, fresh] = class_of_text_.try_emplace(text);
    if (fresh) {
      const std::string wanted = torch::class_name(block.prefix);
      const int number = ++classes_[wanted];
      known->second = number == 1 ? wanted : wanted + std::to_string(number);
      const std::string base = text.find("self[") != std::string::npos ? "Parts" : "nn.Module";
      made_.text += "class " + known->second + "(" + base + "):\n    \"\"\"" + comment(block.prefix) + ", and what is computed like it.\"\"\"\n\n" + text + "\n\n";
    }
    block.class_name = known->second;
  }

  static std::string dictionary(const std::string& name, const std::vector<std::pair<std::string, std::string>>& entries) {
    std::string text = "    " + name + " = {\n";
    for (const auto& [key, value] : entries) text += wrapped("        ", quoted(key) + ": " + value + ",");
    return entries.empty() ? "    " + name + " = {}\n" : text + "    }\n";
  }

  void define_model() {
    Names names(forward_.prelude.names());
    std::vector<std::string> arguments;
    std::size_t unnamed = 0;
    for (const ProgramValueId value : forward_.received) arguments.push_back(names.of(value, forward_.program));
    for (const auto& [name, value] : forward_.inputs) {
      if (value == kNoId) arguments.push_back("unused" + std::to_string(unnamed++));  // nothing that is returned depends on it
      else arguments.push_back(names.of(value, forward_.program));
    }
    std::string& text = made_.text;
    text += "class Model(" + forward_.base + "):\n    \"\"\"" + comment(docstring_) + "\"\"\"\n\n";
    if (forward_.draws || std::ranges::any_of(forward_.statements, &Statement::draws)) text += "    DRAWS = True\n";
    text += dictionary("INPUTS", forward_.input_layouts) + dictionary("OUTPUTS", forward_.output_layouts);
    std::vector<std::pair<std::string, std::string>> tied;
    for (const auto& [other, first] : forward_.tied) tied.emplace_back(other, quoted(first));
    text += dictionary("TIED", tied);
    if (forward_.microbatches > 1) text += "    MICROBATCHES = " + std::to_string(forward_.microbatches) + "\n";
    text += forward_.settings + "\n    def __init__(self):\n        super().__init__()\n" + members_text(forward_.members, blocks_, "") + "\n";
    text += wrapped("    ", "def forward(self" + (arguments.empty() ? "" : ", " + join(arguments)) + "):");
    text += body(names);
    std::vector<std::string> outputs;
    for (const std::string& output : forward_.outputs) outputs.push_back(rendered(output, names, ""));
    text += wrapped("        ", "return " + join(outputs));
  }

  Forward forward_;
  const std::string& docstring_;
  const std::vector<std::string>& recomputed_;
  ModuleText made_;
  std::vector<Block> blocks_;
  std::map<std::string, std::string> class_of_text_;
  std::map<std::string, int> classes_;
};

}  // namespace

ModuleText module_text(const Forward& forward, const std::string& docstring, const std::vector<std::string>& recomputed) {
  return Classes(forward, docstring, recomputed).run();
}

}  // namespace meshwright::torch
