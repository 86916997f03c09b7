#include "prelude.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "prelude_text.h"  // generated: kPrelude, the files one after the other

namespace meshwright::torch {

namespace {

struct Definition {
  std::string name;
  std::string text;
  std::set<std::string, std::less<>> words;  // that are mentioned outside of comments and docstrings
};

// Identifiers, but those behind a dot, which are members of something.
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
      if (begin == 0 || text[begin - 1] != '.') words.emplace(text.substr(begin, at - begin));
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

// A definition begins at a line that is not indented, a decorator or a comment above it included, and lasts to the next.
std::vector<Definition> read_definitions() {
  std::vector<Definition> definitions;
  std::string pending;  // decorators and comments
  bool imports = false, docstring = false, open = false;
  const std::string_view all = kPrelude;
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
  return definitions;
}

const std::vector<Definition>& definitions() {
  static const std::vector<Definition> kDefinitions = read_definitions();
  return kDefinitions;
}

}  // namespace

std::set<std::string> prelude_names() {
  std::set<std::string> names;
  for (const Definition& definition : definitions()) names.insert(definition.name);
  return names;
}

std::string prelude_for(std::string_view body) {
  std::set<std::string, std::less<>> wanted = words_of(body);
  std::vector<bool> taken(definitions().size(), false);
  for (bool grows = true; grows;) {
    grows = false;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (taken[i] || !wanted.contains(definitions()[i].name)) continue;
      taken[i] = grows = true;
      wanted.insert(definitions()[i].words.begin(), definitions()[i].words.end());
    }
  }
  std::string text;
  bool constant = false;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    if (!taken[i] || definitions()[i].name == "AXES") continue;
    const std::string& here = definitions()[i].text;
    const bool is_constant = here.find("def ") == std::string::npos && here.find("class ") == std::string::npos;
    if (!text.empty()) text += constant && is_constant ? "" : "\n\n";
    text += here;
    constant = is_constant;
  }
  return text;
}

}  // namespace meshwright::torch
