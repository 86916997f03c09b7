#include "stored_bytes.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>

namespace meshwright::onnx {

std::string StoredBytes::path_of(const ExternalPlace& place) const {
  return (std::filesystem::path(model_path_).parent_path() / place.location).lexically_normal().string();
}

bool StoredBytes::has(const StoredTensor& tensor) const {
  std::error_code ignored;
  return !tensor.external || std::filesystem::is_regular_file(path_of(*tensor.external), ignored);
}

Status StoredBytes::check(const StoredTensor& tensor) const {
  if (!tensor.external) return Done{};
  const ExternalPlace& place = *tensor.external;
  const std::string where = model_path_ + ": tensor '" + tensor.name + "'";
  const std::filesystem::path location(place.location);
  bool leaves = location.is_absolute();
  for (const std::filesystem::path& part : location) leaves |= part == "..";
  std::error_code failure;
  const std::filesystem::path path = path_of(place);
  const bool exists = std::filesystem::exists(path, failure);
  if (exists && !leaves) {  // a link may lead anywhere
    const std::filesystem::path folder = std::filesystem::canonical(std::filesystem::absolute(model_path_).parent_path(), failure);
    const std::string inside = std::filesystem::canonical(path, failure).lexically_relative(folder).string();
    leaves = failure || inside.empty() || inside.starts_with("..");
  }
  if (leaves)
    return bad_input(where + " lies in '" + place.location +
                     "', outside of the model's folder; such files are not read");
  if (place.length >= 0 && place.length != tensor.type.bytes()) {
    return bad_input(where + " is a " + to_string(tensor.type) + " of " + std::to_string(tensor.type.bytes()) +
                     " bytes, and its place in '" + place.location + "' has " + std::to_string(place.length));
  }
  if (!exists) return Done{};
  if (!std::filesystem::is_regular_file(path, failure)) return bad_input(where + " lies in '" + path.string() + "', which is no regular file");
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, failure));
  std::int64_t end = 0;
  if (failure || __builtin_add_overflow(place.offset, tensor.type.bytes(), &end) || end > size)
    return bad_input(where + " goes beyond the end of '" + path.string() + "'; the file was cut short");
  return Done{};
}

Result<Tensor> StoredBytes::read(const StoredTensor& tensor) const {
  if (Status status = check(tensor); !status) return status.error();
  Tensor result(tensor.type);
  if (!tensor.external) {
    const auto stored = std::as_bytes(std::span(tensor.bytes));
    std::copy(stored.begin(), stored.end(), result.bytes().begin());
    return result;
  }
  const ExternalPlace& place = *tensor.external;
  const std::string where = model_path_ + ": tensor '" + tensor.name + "'";
  std::ifstream file(path_of(place), std::ios::binary);
  if (!file)
    return bad_input(where + " lies in '" + path_of(place) + "', which can't be opened; put it beside the model");
  file.seekg(place.offset);
  file.read(reinterpret_cast<char*>(result.bytes().data()), static_cast<std::streamsize>(result.bytes().size()));
  if (!file) return bad_input(where + " goes beyond the end of '" + path_of(place) + "'; the file was cut short");
  return result;
}

}  // namespace meshwright::onnx
