#include "equation.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace meshwright {

namespace {

constexpr std::string_view kEllipsis = "...";

// "bh..." → b, h, ...
Result<std::vector<std::string>> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    const bool dots = text.substr(i, kEllipsis.size()) == kEllipsis;
    if (!dots && !std::isalpha(static_cast<unsigned char>(text[i]))) return bad_input("an equation is of letters, commas, '...' and '->'");
    words.emplace_back(dots ? kEllipsis : text.substr(i, 1));
    if (dots) i += kEllipsis.size() - 1;
  }
  return words;
}

// Replaces "..." by `count` numbers, which count from the last dimension backwards.
std::vector<std::string> spell_out(const std::vector<std::string>& words, std::int64_t count) {
  std::vector<std::string> names;
  for (const std::string& word : words) {
    if (word != kEllipsis) names.push_back(word);
    else for (std::int64_t i = count; i-- > 0;) names.push_back(std::to_string(i));
  }
  return names;
}

std::vector<std::string> implied_result(const std::vector<std::vector<std::string>>& operands) {
  std::map<std::string, int> letters;
  for (const auto& names : operands) {
    for (const std::string& name : names) ++letters[name];
  }
  std::vector<std::string> result = {std::string(kEllipsis)};
  for (const auto& [name, times] : letters) {
    if (times == 1 && std::isalpha(static_cast<unsigned char>(name[0]))) result.push_back(name);
  }
  return result;
}

}  // namespace

Result<Equation> parse_equation(std::string_view text, const std::vector<std::int64_t>& ranks) {
  const std::size_t arrow = text.find("->");
  std::string_view left = text.substr(0, arrow);
  Equation equation;
  std::int64_t widest = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::size_t comma = left.find(',');
    if ((comma == std::string_view::npos) != (i + 1 == ranks.size())) return bad_input("the equation is for another number of operands");
    Result<std::vector<std::string>> words = words_of(left.substr(0, comma));
    if (!words) return words.error();
    left = comma == std::string_view::npos ? "" : left.substr(comma + 1);
    const bool open = std::ranges::find(*words, kEllipsis) != words->end();
    const std::int64_t named = static_cast<std::int64_t>(words->size()) - (open ? 1 : 0), rest = ranks[i] - named;
    if (rest < 0 || (!open && rest > 0)) return bad_input("the equation does not go with the rank of operand " + std::to_string(i));
    widest = std::max(widest, rest);
    equation.operands.push_back(spell_out(*words, rest));
    const std::set<std::string> unique(equation.operands.back().begin(), equation.operands.back().end());
    if (unique.size() != equation.operands.back().size()) return bad_input("an equation that takes a diagonal is not supported");
  }
  if (arrow == std::string_view::npos) {
    equation.result = spell_out(implied_result(equation.operands), widest);
    return equation;
  }
  Result<std::vector<std::string>> words = words_of(text.substr(arrow + 2));
  if (!words) return words.error();
  equation.result = spell_out(*words, widest);
  return equation;
}

Result<Equation> equation_of(const Node& node, const std::vector<std::int64_t>& ranks) {
  const std::string text = node.op == "aten.outer" ? "i,j->ij"
                           : node.op == "aten.dot" ? "i,i->"
                           : node.op == "aten.mv"  ? "ij,j->i"
                                                   : node.text("equation", "");
  return parse_equation(text, ranks);
}

std::string to_text(const Equation& equation) {
  std::map<std::string, char> letters;
  std::set<char> taken;
  const auto note = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (std::isalpha(static_cast<unsigned char>(name[0]))) taken.insert(letters[name] = name[0]);
    }
  };
  for (const auto& names : equation.operands) note(names);
  const auto spell = [&](const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
      char& letter = letters[name];
      for (char next = 'A'; letter == '\0'; next = next == 'Z' ? 'a' : static_cast<char>(next + 1)) {
        if (taken.insert(next).second) letter = next;
      }
      text += letter;
    }
    return text;
  };
  std::string text;
  for (std::size_t i = 0; i < equation.operands.size(); ++i) text += (i > 0 ? "," : "") + spell(equation.operands[i]);
  return text + "->" + spell(equation.result);
}

}  // namespace meshwright
