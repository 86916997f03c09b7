// Mutators that know a format: most of what they make still parses, so that it reaches what stands behind the parser.
// Signatures are those of LLVMFuzzerCustomMutator: `data` has room for `most` bytes, of which `size` are used; the
// number used afterwards is given back. Now and then they leave the bytes to libFuzzer's own mutator.
#pragma once

#include <cstddef>
#include <cstdint>

namespace meshwright::fuzz {

// Another value somewhere: numbers at the edges, texts and values of elsewhere in the document, members left out or
// twice.
std::size_t mutate_json(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed);
// A field of a protocol buffer's message, at any depth: left out, repeated, swapped, or with another number or content.
std::size_t mutate_wire(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed);
// A line left out or twice, or another number or word behind an equals sign.
std::size_t mutate_toml(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed);

}  // namespace meshwright::fuzz
