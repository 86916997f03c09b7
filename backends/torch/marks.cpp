#include "marks.h"

namespace meshwright::torch {

namespace {

constexpr char kValueBegin = '\x01', kMemberBegin = '\x02', kEnd = '\x03', kEscape = '\x04';

// A model's name may have the bytes that marks are made of, or end a line, which no expression does.
std::string escaped(const std::string& path) {
  std::string made;
  for (const char c : path) made += c >= 0 && c < ' ' ? std::string{kEscape, static_cast<char>(c + '0')} : std::string(1, c);
  return made;
}

std::string unescaped(const std::string& content) {
  std::string made;
  for (std::size_t i = 0; i < content.size(); ++i) made += content[i] == kEscape ? static_cast<char>(content[++i] - '0') : content[i];
  return made;
}

// Calls `visit(is_value, content)` for every mark and `keep(text)` for what is between.
template <class Visit, class Keep>
void scan(const std::string& text, Visit visit, Keep keep) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t mark = text.find_first_of(std::string{kValueBegin, kMemberBegin}, at);
    keep(text.substr(at, mark - at));
    if (mark == std::string::npos) return;
    const std::size_t end = text.find(kEnd, mark);
    visit(text[mark] == kValueBegin, unescaped(text.substr(mark + 1, end - mark - 1)));
    at = end + 1;
  }
}

}  // namespace

std::string value_mark(ProgramValueId value) { return kValueBegin + std::to_string(value) + kEnd; }
std::string member_mark(const std::string& path) { return kMemberBegin + escaped(path) + kEnd; }

std::vector<ProgramValueId> values_in(const std::string& text) {
  std::vector<ProgramValueId> values;
  scan(text, [&](bool is_value, const std::string& content) { if (is_value) values.push_back(static_cast<ProgramValueId>(std::stoul(content))); },
       [](const std::string&) {});
  return values;
}

std::vector<std::string> members_in(const std::string& text) {
  std::vector<std::string> members;
  scan(text, [&](bool is_value, const std::string& content) { if (!is_value) members.push_back(content); }, [](const std::string&) {});
  return members;
}

std::string without_marks(const std::string& text, const std::function<std::string(ProgramValueId)>& value,
                          const std::function<std::string(const std::string&)>& member) {
  std::string made;
  scan(text,
       [&](bool is_value, const std::string& content) {
         made += is_value ? value(static_cast<ProgramValueId>(std::stoul(content))) : member(content);
       },
       [&](const std::string& between) { made += between; });
  return made;
}

}  // namespace meshwright::torch
