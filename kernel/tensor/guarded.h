// Every call of a plugin goes through here, so that whatever it throws becomes an error that says who threw.
#pragma once

#include <exception>
#include <string>

#include "meshwright/result.h"

namespace meshwright {

// Returns `body()`, a Result or a Status. `who()` begins the sentence: "model.pt2: the frontend".
template <class Who, class Body>
auto guarded(Who who, Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& thrown) {
    return plugin_failed(who() + " threw an exception: " + thrown.what());
  } catch (...) {
    return plugin_failed(who() + " threw something that is no exception");
  }
}

}  // namespace meshwright
