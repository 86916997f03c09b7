#include "files/safetensors.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "files/input_file.h"
#include "files/json.h"
#include "files/json_place.h"

namespace meshwright::host {

namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::int64_t kMostHeaderBytes = 100'000'000;  // as the format's own reader has it
constexpr const char* kMetadataKey = "__metadata__";

struct Word {
  DType dtype;
  const char* text;
};
constexpr std::array kDTypes = {Word{DType::uint8, "U8"},      Word{DType::int8, "I8"},     Word{DType::int16, "I16"},    Word{DType::int32, "I32"},     Word{DType::int64, "I64"},     Word{DType::float16, "F16"},
                                Word{DType::float32, "F32"},   Word{DType::float64, "F64"}, Word{DType::bfloat16, "BF16"}, Word{DType::boolean, "BOOL"}};

const char* word_of(DType dtype) {
  const auto* found = std::ranges::find(kDTypes, dtype, &Word::dtype);
  return found == kDTypes.end() ? nullptr : found->text;
}

void append_length(std::uint64_t length, std::string& text) {
  for (std::size_t i = 0; i < kLengthBytes; ++i) text += static_cast<char>(length >> (8 * i) & 0xffU);
}

std::uint64_t length_of(std::string_view text) {
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= std::uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
  return length;
}

struct Entry {
  std::string name;
  TensorType type;
  std::int64_t begin = 0, end = 0;  // of its bytes, behind the header
};

// Bytes of a tensor; none: more than can be counted.
std::optional<std::int64_t> bytes_of(const TensorType& type) {
  std::int64_t bytes = size_bytes(type.dtype);
  for (const std::int64_t size : type.shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

Entry read_entry(const std::string& name, const JsonPlace& place, std::int64_t available) {
  Entry entry{name, {}, 0, 0};
  const std::string dtype = place.at("dtype").text();
  const auto* known = std::ranges::find_if(kDTypes, [&](const Word& word) { return dtype == word.text; });
  if (known == kDTypes.end()) place.fail("the dtype '" + dtype + "' is not known here");
  else entry.type.dtype = known->dtype;
  for (const JsonPlace& size : place.at("shape").elements()) entry.type.shape.push_back(size.integer(0));
  const std::vector<JsonPlace> offsets = place.at("data_offsets").elements(2);
  entry.begin = offsets[0].integer(0);
  entry.end = offsets[1].integer(entry.begin);
  if (place.failed()) return entry;
  if (entry.end > available) place.fail("it ends at byte " + std::to_string(entry.end) + " of the tensors, of which there are " + std::to_string(available) + "; the file is cut off");
  const std::optional<std::int64_t> bytes = bytes_of(entry.type);
  if (!bytes || *bytes != entry.end - entry.begin) place.fail(to_string(entry.type) + " does not take " + std::to_string(entry.end - entry.begin) + " bytes");
  return entry;
}

// The tensors' bytes follow each other, from the first to the last.
Status check_order(std::vector<Entry>& entries, std::int64_t available, const std::string& name) {
  std::ranges::sort(entries, {}, [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
  std::int64_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != end) return bad_input(name + ": '" + entry.name + "' begins at byte " + std::to_string(entry.begin) + " of the tensors, where " + std::to_string(end) + " is the next one");
    end = entry.end;
  }
  if (end != available) return bad_input(name + ": its tensors end at byte " + std::to_string(end) + ", and the file at " + std::to_string(available) + "; it is damaged");
  return Done{};
}

}  // namespace

Result<std::string> write_safetensors(const Safetensors& content) {
  Json header, words;
  for (const auto& [key, text] : content.words) words.add(key, text);
  if (!content.words.empty()) header.add(kMetadataKey, std::move(words));
  std::int64_t end = 0;
  for (const auto& [name, tensor] : content.tensors) {
    const char* dtype = word_of(tensor.type().dtype);
    if (name == kMetadataKey || dtype == nullptr) return bad_input("'" + name + "', " + to_string(tensor.type()) + ", can't be saved: the format safetensors has no such " + (dtype == nullptr ? "dtype" : "name"));
    Json shape = Json::Array{};
    for (const std::int64_t size : tensor.shape()) shape.push(size);
    const std::int64_t begin = end;
    end += tensor.type().bytes();
    header.add(name, Json().add("dtype", dtype).add("shape", std::move(shape)).add("data_offsets", Json::Array{begin, end}));
  }
  std::string text = write_json(content.tensors.empty() && content.words.empty() ? Json(Json::Object{}) : header, true);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  std::string file;
  file.reserve(kLengthBytes + text.size() + static_cast<std::size_t>(end));
  append_length(text.size(), file);
  file += text;
  for (const auto& [name, tensor] : content.tensors) file.append(reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size());
  return file;
}

Result<Safetensors> parse_safetensors(std::string_view text, const std::string& name) {
  if (text.size() < kLengthBytes) return bad_input(name + ": is too short for a file of safetensors, which begins with the 8 bytes of its header's length");
  const std::uint64_t length = length_of(text);
  if (length > static_cast<std::uint64_t>(kMostHeaderBytes)) return bad_input(name + ": is no file of safetensors: its first 8 bytes would be the length of a header, and say " + std::to_string(length));
  if (text.size() - kLengthBytes < length) return bad_input(name + ": is cut off: its header has " + std::to_string(length) + " bytes, and " + std::to_string(text.size() - kLengthBytes) + " are there");
  const std::string_view data = text.substr(kLengthBytes + length);
  const auto available = static_cast<std::int64_t>(data.size());
  const Result<Json> header = parse_json(text.substr(kLengthBytes, length), name + ", its header");
  if (!header) return header.error();
  Safetensors content;
  std::vector<Entry> entries;
  std::optional<std::string> problem;
  for (const auto& [key, place] : JsonPlace(*header, problem).members()) {
    if (key == kMetadataKey) {
      for (const auto& [word, said] : place.members()) {
        if (!content.words.emplace(word, said.text()).second) said.fail("it is there twice");
      }
      continue;
    }
    entries.push_back(read_entry(key, place, available));
    if (problem) break;
  }
  if (problem) return bad_input(name + ", its header: " + *problem);
  if (Status status = check_order(entries, available, name); !status) return status.error();
  for (Entry& entry : entries) {
    Tensor tensor = Tensor::uncleared(std::move(entry.type));
    if (!tensor.bytes().empty()) std::memcpy(tensor.bytes().data(), data.data() + entry.begin, tensor.bytes().size());
    if (!content.tensors.emplace(entry.name, std::move(tensor)).second) return bad_input(name + ": '" + entry.name + "' is there twice");
  }
  return content;
}

Result<Safetensors> read_safetensors(const std::string& path) {
  if (Status status = check_regular(path); !status) return status.error();
  std::ifstream file(path, std::ios::binary);
  if (!file) return bad_input(path + ": no such file, or it can't be read");
  std::ostringstream text;
  if (std::filesystem::file_size(path) > 0) text << file.rdbuf();
  if (!file) return bad_input(path + ": can't be read");
  return parse_safetensors(std::move(text).str(), path);
}

}  // namespace meshwright::host
