// Reads one section of an ELF file without loading it: no code of the file runs and nothing is mapped. The loader looks
// at a plugin this way before it hands the file to dlopen, because dlopen of a truncated file dies with SIGBUS.
//
// Every offset in the file is checked against the file's length before it is followed. A file that is shorter than its
// section table or program headers say is refused as a whole, even if the wanted section is intact.
#pragma once

#include <string>
#include <string_view>

#include "meshwright/result.h"

namespace meshwright::host {

// The bytes of section `name` of the 64-bit shared library at `path`. Errors, each its own sentence starting with the
// path: bad_input if the file can't be read; plugin_failed if it is no ELF file, not one for this machine, no shared
// library, truncated or damaged, without the section, or with an absurdly large one (over 64 KiB).
Result<std::string> read_elf_section(const std::string& path, std::string_view name);

}  // namespace meshwright::host
