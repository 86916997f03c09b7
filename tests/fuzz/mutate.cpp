#include "mutate.h"

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace meshwright::fuzz {

namespace {

using Json = nlohmann::ordered_json;
using Random = std::minstd_rand;

constexpr std::array<std::int64_t, 20> kNumbers = {0,         1,         -1,        2,         3,         7,
                                                   64,        255,       65536,     INT32_MAX, 1LL << 31, -(1LL << 31),
                                                   1LL << 32, 1LL << 40, 1LL << 53, 1LL << 62, INT64_MAX, INT64_MIN,
                                                   -2,        5};
constexpr std::array<double, 7> kReals = {0.0, -1.5, 0.5, 1e-320, 1e-300, 1e300, 1.7e308};
constexpr std::array<const char*, 12> kTexts = {"",        "x",     "nan",  "-inf",
                                                "float32", "int64", "bool", "complex64",
                                                "S0R",     "R+P0",  "\xff", "torch.ops.aten.view.default"};

std::size_t below(Random& random, std::size_t count) { return count == 0 ? 0 : random() % count; }
template <class List>
auto any_of(Random& random, const List& list) {
  return list[below(random, std::size(list))];
}

void collect(Json& value, std::vector<Json*>& places) {
  for (Json& child : value) {
    places.push_back(&child);
    if (child.is_structured()) collect(child, places);
  }
}

void change(Random& random, Json& value, const std::vector<Json*>& places) {
  const std::size_t how = below(random, 10);
  if (how == 0) {
    value = Json(*places[below(random, places.size())]);  // a value of elsewhere
  } else if (value.is_number_integer() && how < 8) {
    value = how < 4 ? Json(value.get<std::int64_t>() ^ static_cast<std::int64_t>(1 + below(random, 3)))
                    : Json(any_of(random, kNumbers));
  } else if (value.is_number_float() && how < 8) {
    value = any_of(random, kReals);
  } else if (value.is_boolean() && how < 8) {
    value = !value.get<bool>();
  } else if (value.is_string() && how < 9) {
    const Json* other = how < 6 ? places[below(random, places.size())] : nullptr;
    value = other != nullptr && other->is_string() ? Json(*other) : Json(any_of(random, kTexts));
  } else if (value.is_structured() && !value.empty() && how < 9) {
    const auto at = static_cast<std::ptrdiff_t>(below(random, value.size()));
    if (how < 5 || value.is_object())
      value.erase(std::next(value.begin(), at));
    else
      value.insert(value.begin() + at, Json(value[static_cast<std::size_t>(at)]));
  } else {
    const std::array<Json, 6> others = {nullptr, 0, "", Json::array(), Json::object(), 1.5};
    value = any_of(random, others);
  }
}

std::size_t put(const std::string& text, std::uint8_t* data, std::size_t size, std::size_t most) {
  if (text.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

// --- protocol buffers: fields as (number, wire type, bytes) ---

struct Field {
  std::uint64_t key = 0;
  std::uint64_t number = 0;  // wire type 0
  std::string content;       // others
};

bool read_varint(std::string_view data, std::size_t& at, std::uint64_t& number) {
  number = 0;
  for (unsigned shift = 0; shift < 64 && at < data.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(data[at++]);
    number |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

void write_varint(std::string& made, std::uint64_t number) {
  for (; number > 0x7f; number >>= 7) made += static_cast<char>((number & 0x7f) | 0x80);
  made += static_cast<char>(number);
}

bool read_fields(std::string_view data, std::vector<Field>& fields) {
  for (std::size_t at = 0; at < data.size();) {
    Field field;
    if (!read_varint(data, at, field.key) || field.key >> 3 == 0 || field.key >> 3 > 10'000) return false;
    std::uint64_t size = (field.key & 7) == 1 ? 8 : (field.key & 7) == 5 ? 4 : 0;
    if ((field.key & 7) == 0) {
      if (!read_varint(data, at, field.number)) return false;
    } else if ((field.key & 7) == 2) {
      if (!read_varint(data, at, size)) return false;
    } else if (size == 0) {
      return false;
    }
    if (size > data.size() - at) return false;
    field.content = data.substr(at, size);
    at += size;
    fields.push_back(std::move(field));
  }
  return !fields.empty();
}

std::string write_fields(const std::vector<Field>& fields) {
  std::string made;
  for (const Field& field : fields) {
    write_varint(made, field.key);
    if ((field.key & 7) == 0) write_varint(made, field.number);
    if ((field.key & 7) == 2) write_varint(made, field.content.size());
    made += field.content;
  }
  return made;
}

std::string mutated_message(Random& random, std::string_view data, int depth) {
  std::vector<Field> fields;
  if (depth > 20 || !read_fields(data, fields))
    return below(random, 3) == 0 ? std::string(data.substr(0, data.size() / 2)) : std::string(any_of(random, kTexts));
  std::size_t at = below(random, fields.size());
  if (depth == 0 && below(random, 10) > 0) {  // most of a model is its graph
    for (std::size_t i = 0; i < fields.size(); ++i) at = fields[i].content.size() > fields[at].content.size() ? i : at;
  }
  Field& field = fields[at];
  if ((field.key & 7) == 2 && !field.content.empty() && below(random, 10) < (depth == 0 ? 10U : 7U)) {
    field.content = mutated_message(random, field.content, depth + 1);
    return write_fields(fields);
  }
  switch (below(random, 4)) {
    case 0:
      fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(at), Field(fields[below(random, fields.size())]));
      break;
    case 2:
      std::swap(fields[at], fields[below(random, fields.size())]);
      break;
    default:
      if ((field.key & 7) == 0)
        field.number = below(random, 2) == 0 ? field.number ^ (1 + below(random, 7))
                                             : static_cast<std::uint64_t>(any_of(random, kNumbers));
      else if ((field.key & 7) == 2)
        field.content = any_of(random, kTexts);
  }
  return write_fields(fields);
}

}  // namespace

std::size_t mutate_json(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  Random random(seed);
  Json document = Json::parse(data, data + size, nullptr, false);
  if (document.is_discarded() || !document.is_structured() || document.empty() || below(random, 50) == 0)
    return LLVMFuzzerMutate(data, size, most);
  for (std::size_t times = 1 + below(random, 3); times > 0; --times) {
    std::vector<Json*> places;
    collect(document, places);
    if (!places.empty()) change(random, *places[below(random, places.size())], places);
  }
  return put(document.dump(-1, ' ', false, Json::error_handler_t::replace), data, size, most);
}

std::size_t mutate_wire(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  Random random(seed);
  if (below(random, 50) == 0) return LLVMFuzzerMutate(data, size, most);
  std::string message(reinterpret_cast<const char*>(data), size);
  for (std::size_t times = 1 + below(random, 2); times > 0; --times) message = mutated_message(random, message, 0);
  return put(message, data, size, most);
}

std::size_t mutate_toml(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  static constexpr std::array<const char*, 20> kValues = {
      "0",        "-1",         "1",      "3",     "2147483648", "9223372036854775807", "nan",
      "inf",      "-inf",       "1e-320", "1e308", "\"0GB/s\"",  "\"nanGB/s\"",         "\"1e308GiB\"",
      "\"-1us\"", "\"1e400s\"", "true",   "[]",    "\"x\"",      "1979-05-27"};
  Random random(seed);
  if (below(random, 20) == 0) return LLVMFuzzerMutate(data, size, most);
  std::vector<std::string> lines(1);
  for (std::size_t i = 0; i < size; ++i) {
    if (data[i] == '\n')
      lines.emplace_back();
    else
      lines.back() += static_cast<char>(data[i]);
  }
  const std::size_t at = below(random, lines.size());
  const std::size_t equals = lines[at].find('=');
  const std::size_t how = below(random, 5);
  if (how == 0)
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
  else if (how == 1)
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), std::string(lines[below(random, lines.size())]));
  else if (equals != std::string::npos)
    lines[at] = lines[at].substr(0, equals + 1) + " " + any_of(random, kValues);
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) text += (i > 0 ? "\n" : "") + lines[i];
  return put(text, data, size, most);
}

}  // namespace meshwright::fuzz
