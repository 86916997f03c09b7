#include "prelude.h"

#include <algorithm>
#include <cctype>

#include "prelude_text.h"  // generated: kPrelude, the files one after the other

namespace meshwright::torch {

namespace {

// Identifiers, but those behind a dot, which are members of something, and those that name an argument.
std::set<std::string, std::less<>> words_of(std::string_view text) {
  std::set<std::string, std::less<>> words;
  for (std::size_t at = 0; at < text.size();) {
    if (text.substr(at, 3) == "\"\"\"") {
      at = std::min(text.find("\"\"\"", at + 3), text.size() - 3) + 3;
    } else if (text[at] == '"') {
      at = std::min(text.find('"', at + 1), text.size() - 1) + 1;
    } else if (text[at] == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else if (std::isalpha(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_') {
      const std::size_t begin = at;
      while (at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_')) ++at;
      const bool is_member = begin > 0 && text[begin - 1] == '.', names_argument = text.substr(at, 1) == "=" && text.substr(at, 2) != "==";
      if (!is_member && !names_argument) words.emplace(text.substr(begin, at - begin));
    } else {
      ++at;
    }
  }
  return words;
}

// "name" of "def name(", "class name:", "name = 1"; empty: no definition.
std::string defined_name(std::string_view line) {
  for (const std::string_view keyword : {"def ", "class "}) {
    if (line.starts_with(keyword)) line.remove_prefix(keyword.size());
  }
  std::size_t end = 0;
  while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) != 0 || line[end] == '_')) ++end;
  return std::string(line.substr(0, end));
}

// "a", "b as c" of "a, b as c"
std::vector<std::string> listed(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comma = std::min(text.find(", ", at), text.size());
    parts.emplace_back(text.substr(at, comma - at));
    at = comma + 2;
  }
  return parts;
}

// What a line imports, each name by itself; nothing that is written beside it.
void read_imports(std::string_view line, std::set<Import>& imports) {
  const bool is_from = line.starts_with("from ");
  const std::size_t listed_at = is_from ? line.find(" import ") + 8 : 7;
  const std::string before(line.substr(0, std::min(listed_at, line.size())));
  if (listed_at >= line.size() || before.starts_with("from .") || before.starts_with("from sharding ")) return;
  for (const std::string& each : listed(line.substr(listed_at))) {
    const std::size_t as = each.find(" as ");
    imports.insert({as != std::string::npos ? each.substr(as + 4) : is_from ? each : each.substr(0, each.find('.')), before + each});
  }
}

constexpr std::string_view kOfThePlan[] = {"AXES", "STAGES", "GROUPS", "GROUP", "BUCKET_BYTES", "UNIT_BYTES"};

struct Text {
  std::vector<Definition> definitions;
  std::set<Import> imports;
};

// A definition begins at a line that is not indented, a decorator or a comment above it included, and lasts to the next.
Text read_text(std::string_view all) {
  Text read;
  std::vector<Definition>& definitions = read.definitions;
  std::string pending;  // decorators and comments
  bool imports = false, docstring = false, open = false;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    const std::string_view line = all.substr(at, end - at);
    at = end + 1;
    if (docstring) {
      docstring = line.find("\"\"\"") == std::string_view::npos;
      continue;
    }
    const bool continues = line.empty() || line[0] == ' ' || line[0] == ')' || line[0] == ']' || line[0] == '}';
    if (continues) {
      if (!imports && open) definitions.back().text += std::string(line) + "\n";
      continue;
    }
    imports = line.starts_with("import ") || line.starts_with("from ");
    if (imports) {
      read_imports(line, read.imports);
      open = false;
    } else if (line.starts_with("\"\"\"")) {  // of the file
      docstring = line.find("\"\"\"", 3) == std::string_view::npos;
      open = false;
    } else if (line[0] == '#' || line[0] == '@') {
      pending += std::string(line) + "\n";
      open = false;
    } else {
      definitions.push_back({defined_name(line), pending + std::string(line) + "\n", {}});
      pending.clear();
      open = true;
    }
  }
  for (Definition& definition : definitions) {
    while (definition.text.ends_with("\n\n")) definition.text.pop_back();
    definition.words = words_of(definition.text);
  }
  return read;
}

const Text& own_text() {
  static const Text kText = read_text(kPrelude);
  return kText;
}

}  // namespace

Prelude::Prelude() : definitions_(own_text().definitions), imports_(own_text().imports) {}

Status Prelude::add(std::string_view text) {
  if (text.empty()) return Done{};
  Text read = read_text(text);
  return add(std::move(read.definitions), std::move(read.imports));
}

Status Prelude::add(const Prelude& other) { return add(other.definitions_, other.imports_); }

Status Prelude::add(std::vector<Definition> definitions, std::set<Import> imports) {
  for (Definition& definition : definitions) {
    const auto known = std::ranges::find(definitions_, definition.name, &Definition::name);
    if (known == definitions_.end()) {
      definitions_.push_back(std::move(definition));
    } else if (known->text != definition.text) {
      return bad_input("its prelude defines '" + definition.name + "', which the program has with another meaning; give it another name");
    }
  }
  imports_.merge(imports);
  return Done{};
}

std::set<std::string> Prelude::names() const {
  std::set<std::string> names;
  for (const Definition& definition : definitions_) names.insert(definition.name);
  return names;
}

Prelude::Part Prelude::used_by(std::string_view body) const {
  Part part;
  std::set<std::string, std::less<>> wanted = words_of(body);
  for (const std::string& name : names()) {
    if (wanted.contains(name)) part.mentioned.push_back(name);
  }
  std::vector<bool> taken(definitions_.size(), false);
  for (bool grows = true; grows;) {
    grows = false;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (taken[i] || !wanted.contains(definitions_[i].name)) continue;
      taken[i] = grows = true;
      wanted.insert(definitions_[i].words.begin(), definitions_[i].words.end());
    }
  }
  std::set<std::string, std::less<>> words;
  bool constant = false;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    if (!taken[i]) continue;
    words.insert(definitions_[i].words.begin(), definitions_[i].words.end());
    if (std::ranges::find(kOfThePlan, definitions_[i].name) != std::end(kOfThePlan)) continue;
    const std::string& here = definitions_[i].text;
    const bool is_constant = here.find("def ") == std::string::npos && here.find("class ") == std::string::npos;
    if (!part.definitions.empty()) part.definitions += constant && is_constant ? "" : "\n\n";
    part.definitions += here;
    constant = is_constant;
  }
  std::vector<std::string> lines;
  for (const Import& import : imports_) {
    if (words.contains(import.name)) lines.push_back(import.line);
  }
  part.imports = import_lines(std::move(lines));
  return part;
}

std::string import_lines(std::vector<std::string> lines) {
  const auto rank = [](const std::string& line) {
    const bool is_torch = line.starts_with("import torch") || line.starts_with("from torch");
    return std::pair(is_torch, line.starts_with("from "));
  };
  std::ranges::sort(lines, [&](const std::string& a, const std::string& b) { return std::pair(rank(a), a) < std::pair(rank(b), b); });
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool begins = i > 0 && rank(lines[i]).first && !rank(lines[i - 1]).first;
    text += (begins ? "\n" : "") + lines[i] + "\n";
  }
  return text;
}

}  // namespace meshwright::torch
