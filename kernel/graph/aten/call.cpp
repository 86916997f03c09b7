#include "call.h"

#include <algorithm>

namespace meshwright::aten {

Shape Call::list(std::string_view attribute) const {
  const auto found = node_.attributes.find(attribute);
  if (found == node_.attributes.end()) return {};
  if (const auto* one = std::get_if<std::int64_t>(&found->second)) return {*one};
  return node_.integers(attribute);
}

Result<Shape> Call::spread(std::string_view attribute, std::size_t count, std::int64_t otherwise) const {
  Shape given = list(attribute);
  if (given.empty()) given.push_back(otherwise);
  if (given.size() == 1) given.assign(count, given[0]);
  if (given.size() == count) return given;
  return bad_input("its argument '" + std::string(attribute) + "' has " + std::to_string(given.size()) +
                   " numbers, and " + std::to_string(count) + " are needed");
}

Result<std::size_t> dimension(std::int64_t dim, std::size_t rank) {
  const auto size = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  if (dim >= -size && dim < size) return static_cast<std::size_t>(dim < 0 ? dim + size : dim);
  return bad_input("dimension " + std::to_string(dim) + " is none of its tensor's, which has " + std::to_string(rank));
}

Result<std::vector<std::size_t>> dimensions(const Shape& dims, std::size_t rank) {
  std::vector<std::size_t> found;
  for (const std::int64_t dim : dims) {
    const Result<std::size_t> one = dimension(dim, rank);
    if (!one) return one.error();
    if (std::find(found.begin(), found.end(), *one) != found.end())
      return bad_input("dimension " + std::to_string(dim) + " is named twice");
    found.push_back(*one);
  }
  for (std::size_t d = 0; dims.empty() && d < rank; ++d) found.push_back(d);
  std::sort(found.begin(), found.end());
  return found;
}

Result<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape made(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < made.size(); ++i) {  // from the last dimension
    const std::int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1, right = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (left != right && left != 1 && right != 1)
      return bad_input("shapes " + text(a) + " and " + text(b) + " do not go together");
    made[made.size() - 1 - i] = left == 1 ? right : left;
  }
  return made;
}

std::int64_t elements(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) {
    if (size == 0) return 0;
    if (__builtin_mul_overflow(product, size, &product) || product > kMostElements) product = kMostElements;
  }
  return product;
}

std::string text(const Shape& shape) {
  std::string made = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) made += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return made + "]";
}

}  // namespace meshwright::aten
