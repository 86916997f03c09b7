#include "archive.h"

#include <zip.h>

#include <array>
#include <memory>
#include <string_view>

namespace meshwright::torch_export {

namespace {

// A graph's JSON is about a kilobyte per node; a header that claims more than this is damaged.
constexpr std::size_t kMostTextBytes = std::size_t{1} << 31;
constexpr std::string_view kModel = "models/model.json";
constexpr std::string_view kModelOfOld = "serialized_exported_program.json";  // torch 2.6 and 2.7, at the archive's root
constexpr std::string_view kWeights = "data/weights/";
constexpr std::string_view kWeightsConfig = "data/weights/model_weights_config.json";
constexpr std::string_view kConstantsConfig = "data/constants/model_constants_config.json";
constexpr std::string_view kByteOrder = "byteorder";

struct CloseZip {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseEntry {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};

Error open_error(const std::string& path, int code) {
  if (code == ZIP_ER_NOENT) return bad_input(path + ": there is no such file");
  if (code == ZIP_ER_NOZIP || code == ZIP_ER_INCONS) {
    return bad_input(path + ": this is not a zip archive, or it was cut short; write it with torch.export.save");
  }
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string reason = zip_error_strerror(&error);
  zip_error_fini(&error);
  return bad_input(path + ": cannot read the file: " + reason);
}

// Text of an export shrinks about tenfold. What would grow a thousandfold was made to fill the memory.
constexpr std::uint64_t kMostGrowth = 1000, kSmallText = std::uint64_t{1} << 24;

// As large as the archive's directory says, and no larger than can be.
Result<std::uint64_t> declared_size(zip_t* archive, zip_uint64_t index, const std::string& where, std::size_t most_bytes) {
  zip_stat_t stat;
  constexpr zip_uint64_t kNeeded = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE;
  if (zip_stat_index(archive, index, 0, &stat) != 0 || (stat.valid & kNeeded) != kNeeded) return bad_input(where + ": its size is not known");
  if (stat.size > most_bytes) return bad_input(where + ": it is larger than " + std::to_string(most_bytes) + " bytes");
  if (stat.size > kSmallText && stat.size / kMostGrowth > stat.comp_size) {
    return bad_input(where + ": it would grow from " + std::to_string(stat.comp_size) + " to " + std::to_string(stat.size) + " bytes, which no export does");
  }
  return stat.size;
}

// In chunks, because what is stored may be another size than the archive's directory says.
Result<std::string> read_entry(zip_t* archive, zip_uint64_t index, const std::string& path, std::string_view name,
                               std::size_t most_bytes) {
  const std::string where = path + ": cannot read " + std::string(name) + " from the archive";
  const Result<std::uint64_t> size = declared_size(archive, index, where, most_bytes);
  if (!size) return size.error();
  const std::unique_ptr<zip_file_t, CloseEntry> entry(zip_fopen_index(archive, index, 0));
  if (!entry) return bad_input(where + ": " + zip_strerror(archive));
  std::string text;
  std::array<char, 1 << 16> chunk;
  for (;;) {
    const zip_int64_t count = zip_fread(entry.get(), chunk.data(), chunk.size());
    if (count < 0) return bad_input(where + ": " + zip_file_strerror(entry.get()));
    text.append(chunk.data(), static_cast<std::size_t>(count));
    if (text.size() > *size || (count == 0 && text.size() < *size)) return bad_input(where + ": it has another size than the archive's directory says");
    if (count == 0) return text;
  }
}

using Zip = std::unique_ptr<zip_t, CloseZip>;

// The part of an archive that is kept as text; null for all others.
std::string* text_of(Archive& archive, std::string_view name) {
  if (name == kModel || name == kModelOfOld) return &archive.model;
  if (name == kWeightsConfig) return &archive.weights;
  if (name == kConstantsConfig) return &archive.constants;
  return name == kByteOrder ? &archive.byte_order : nullptr;
}

}  // namespace

Result<Archive> read_archive(const std::string& path) {
  int code = 0;
  const Zip archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (!archive) return open_error(path, code);
  Archive result;
  bool found = false;
  const zip_int64_t entries = zip_get_num_entries(archive.get(), 0);
  for (zip_uint64_t index = 0; index < static_cast<zip_uint64_t>(entries); ++index) {
    const char* full_name = zip_get_name(archive.get(), index, ZIP_FL_ENC_RAW);
    if (full_name == nullptr) continue;
    std::string_view name = full_name;
    name.remove_prefix(name.find('/') == std::string_view::npos ? 0 : name.find('/') + 1);
    if (name == kModel || name == kModelOfOld) {
      if (found) return bad_input(path + ": the archive holds two models; save one program per file");
      result.root = std::string(full_name).substr(0, std::string_view(full_name).size() - name.size());
      found = true;
    }
    if (std::string* text = text_of(result, name)) {
      auto read = read_entry(archive.get(), index, path, name, kMostTextBytes);
      if (!read) return read.error();
      *text = std::move(*read);
    }
    zip_stat_t stat;
    if (!name.starts_with(kWeights) || zip_stat_index(archive.get(), index, 0, &stat) != 0) continue;
    if ((stat.valid & ZIP_STAT_SIZE) != 0) result.payloads.emplace(name.substr(kWeights.size()), stat.size);
  }
  if (!found) {
    return bad_input(path +
                     ": the archive has no models/model.json; write it with torch.export.save of torch 2.6 or newer");
  }
  return result;
}

Result<std::string> read_payload(const std::string& path, const std::string& entry) {
  int code = 0;
  const Zip archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (!archive) return open_error(path, code);
  const zip_int64_t index = zip_name_locate(archive.get(), entry.c_str(), ZIP_FL_ENC_RAW);
  if (index < 0) return bad_input(path + ": the archive has no " + entry);
  return read_entry(archive.get(), static_cast<zip_uint64_t>(index), path, entry, std::string::npos);
}

}  // namespace meshwright::torch_export
