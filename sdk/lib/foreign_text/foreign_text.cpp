#include "foreign_text.h"

#include <array>
#include <cstdio>

namespace meshwright {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

std::string escape(char32_t code) {
  std::array<char, 12> text{};
  const char* const form = code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x";
  std::snprintf(text.data(), text.size(), form, static_cast<unsigned>(code));
  return text.data();
}

bool is_hidden(char32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200b && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) || code == 0xfeff ||
         (code >= 0xfff0 && code <= 0xffff && code != 0xfffd) || (code >= 0xe0000 && code <= 0xe007f);
}

// Calls `visit(character, its bytes)` for every character.
template <class Visit>
void for_each_character(std::string_view text, Visit visit) {
  for (std::size_t at = 0; at < text.size();) {
    const auto [code, length] = character_at(text, at);
    visit(code, text.substr(at, length));
    at += length;
  }
}

}  // namespace

std::pair<char32_t, std::size_t> character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const char32_t first = byte(at);
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + length > text.size()) return {kNoCharacter, 1};
  char32_t code = first & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0U) != 0x80U) return {kNoCharacter, 1};
    code = code << 6U | (byte(at + i) & 0x3fU);
  }
  static constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {kNoCharacter, 1};
  return {code, length};
}

std::string json_string(std::string_view text) {
  std::string made = "\"";
  for_each_character(text, [&](char32_t code, std::string_view bytes) {
    std::array<char, 8> escaped{};
    if (code == kNoCharacter) {
      made += kReplacement;
    } else if (code < 0x20) {
      std::snprintf(escaped.data(), escaped.size(), "\\u%04x", static_cast<unsigned>(code));
      made += escaped.data();
    } else {
      if (code == '"' || code == '\\') made += '\\';
      made += bytes;
    }
  });
  return made + '"';
}

std::string xml_text(std::string_view text) {
  std::string made;
  for_each_character(text, [&](char32_t code, std::string_view bytes) {
    if (code == '&')
      made += "&amp;";
    else if (code == '<')
      made += "&lt;";
    else if (code == '>')
      made += "&gt;";
    else if (code == '"')
      made += "&quot;";
    else if (code == '\'')
      made += "&#39;";
    else if (code == '\t' || code == '\n' || code == '\r')
      made += ' ';
    else if (code < 0x20 || code == 0xfffe || code == 0xffff || code == kNoCharacter)
      made += kReplacement;
    else
      made += bytes;
  });
  return made;
}

std::string message_line(std::string_view text, std::size_t most) {
  std::string made;
  for_each_character(text, [&](char32_t code, std::string_view bytes) {
    if (code == kNoCharacter)
      made += escape(static_cast<unsigned char>(bytes[0]));
    else if (is_hidden(code))
      made += escape(code);
    else
      made += bytes;
  });
  if (made.size() <= most) return made;
  const auto begins_character = [&](std::size_t at) { return (static_cast<unsigned char>(made[at]) & 0xc0U) != 0x80U; };
  std::size_t head = most / 2, tail = made.size() - most / 2;
  while (head > 0 && !begins_character(head)) --head;
  while (tail < made.size() && !begins_character(tail)) ++tail;
  return made.substr(0, head) + " ... " + made.substr(tail);
}

bool nests_deeper(std::string_view json, std::size_t most) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (quoted && c == '\\')
      ++at;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '[' || c == '{'))
      ++depth;
    else if (!quoted && (c == ']' || c == '}') && depth > 0)
      --depth;
    if (depth > most) return true;
  }
  return false;
}

namespace {

// How many bytes the text or comment that begins at `at` takes; 0: none begins there. One that is not closed ends with its
// line, or, of several lines, with everything.
std::size_t length_of_text(std::string_view toml, std::size_t at) {
  const char c = toml[at];
  if (c == '#') return std::min(toml.find('\n', at), toml.size()) - at;
  if (c != '"' && c != '\'') return 0;
  const std::string close = toml.substr(at, 3) == std::string(3, c) ? std::string(3, c) : std::string(1, c);
  std::size_t end = at + close.size();
  while (end < toml.size() && toml.substr(end, close.size()) != close) {
    if (close.size() == 1 && toml[end] == '\n') return end - at;
    end += c == '"' && toml[end] == '\\' ? 2 : 1;
  }
  return std::min(end + close.size(), toml.size()) - at;
}

}  // namespace

std::string_view why_not_toml(std::string_view toml) {
  constexpr std::size_t kMost = 200;
  std::size_t dots = 0;
  for (std::size_t at = 0; at < toml.size();) {
    if (const std::size_t text = length_of_text(toml, at); text > 0) {
      at += text;
      continue;
    }
    const char c = toml[at++];
    if (static_cast<unsigned char>(c) > 0x7f) return "outside of texts and comments stands a character that is not ASCII";
    dots = c == '\n' ? 0 : dots + (c == '.' ? 1 : 0);
    if (dots > kMost) return "a key has more than 200 dots";
  }
  return "";
}

}  // namespace meshwright
