// Functions of libraries that are opened when a plan is run.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string_view>

#include "called.h"
#include "driver.h"

namespace meshwright::cuda {

// A code of our own, for what no library says: below those that libraries give.
inline constexpr Code kNoLibrary = -1;

// Where `make cuda` installed libraries, with ':' between the folders; "" where it installed none.
const char* installed_folders();

// The first name that the system's loader finds, or that lies in a folder. Null: none. Never closed again: threads of
// its own may run in it.
void* open_first(std::initializer_list<const char*> names, std::string_view folders = installed_folders());

// The first call that fails says which one it was.
inline Code said(EntryPoint& entry, EntryPoint called, Code code) {
  if (code != 0) entry = called;
  return code;
}

// The function, if the library has it.
template <class... Arguments>
struct Symbol {
  int (*call)(Arguments...) = nullptr;
  EntryPoint entry = EntryPoint::get_device_count;

  bool find(void* library, EntryPoint of) {
    entry = of;
    call = library != nullptr ? reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name(entry))) : nullptr;
    return call != nullptr;
  }
  Code operator()(Arguments... arguments) const {
    const Code code = call != nullptr ? call(arguments...) : kNoLibrary;
    if (code == 0) note_called(entry);
    return code;
  }
};

}  // namespace meshwright::cuda
