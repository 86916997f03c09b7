// The text form of layouts (layout.h). Axis numbers of two digits and more are written with commas: "S0,11".
#include <cctype>

#include "meshwright/layout.h"

namespace meshwright {

namespace {

std::string axes_text(const std::vector<std::size_t>& axes) {
  bool wide = false;
  for (const std::size_t axis : axes) wide |= axis > 9;
  std::string text;
  for (const std::size_t axis : axes) {
    if (wide && !text.empty()) text += ',';
    text += std::to_string(axis);
  }
  return text;
}

std::string atom_text(const Layout& layout, std::size_t atom) {
  std::vector<std::size_t> axes;
  for (std::size_t axis = 0; axis < layout.mesh_rank(); ++axis) {
    if (layout[axis] == Placement::shard(atom)) axes.push_back(axis);
  }
  return axes.empty() ? "R" : "S" + axes_text(axes);
}

std::string partial_text(const Layout& layout, Placement kind, const char* mark) {
  std::vector<std::size_t> axes;
  for (std::size_t axis = 0; axis < layout.mesh_rank(); ++axis) {
    if (layout[axis] == kind) axes.push_back(axis);
  }
  return axes.empty() ? "" : mark + axes_text(axes);
}

// A cursor over the text that is parsed.
struct Reader {
  std::string_view text;
  std::size_t at = 0;

  bool take(std::string_view expected) {
    if (text.substr(at, expected.size()) != expected) return false;
    at += expected.size();
    return true;
  }
  // "01" → {0, 1}; "0,11" → {0, 11}
  std::vector<std::size_t> take_axes() {
    std::size_t end = at;
    while (end < text.size() && (std::isdigit(static_cast<unsigned char>(text[end])) || text[end] == ',')) ++end;
    const std::string_view digits = text.substr(at, end - at);
    at = end;
    const bool wide = digits.find(',') != std::string_view::npos;
    std::vector<std::size_t> axes;
    bool starts = true;
    for (const char c : digits) {
      if (c == ',') {
        starts = true;
        continue;
      }
      if (starts) axes.push_back(0);
      axes.back() = axes.back() * 10 + static_cast<std::size_t>(c - '0');
      starts = !wide;
    }
    return axes;
  }
};

bool place_all(Layout& layout, const std::vector<std::size_t>& axes, Placement placement) {
  if (axes.empty()) return false;
  for (const std::size_t axis : axes) {
    if (axis >= layout.mesh_rank() || !layout[axis].is_replicate()) return false;
    layout.place(axis, placement);
  }
  return true;
}

bool parse_atom(Reader& reader, Layout& layout, std::size_t atom) {
  if (reader.take("R")) return true;
  return reader.take("S") && place_all(layout, reader.take_axes(), Placement::shard(atom));
}

bool parse_all(Reader& reader, Layout& layout, const AtomShape& shape) {
  std::size_t atom = 0;
  for (const std::uint8_t atoms : shape.atoms_of_dimension) {
    if (atoms == 0 && !reader.take("R")) return false;
    if (atoms == 1 && !parse_atom(reader, layout, atom)) return false;
    if (atoms > 1) {
      if (!reader.take("[")) return false;
      for (std::size_t i = 0; i < atoms; ++i) {
        if ((i > 0 && !reader.take(" ")) || !parse_atom(reader, layout, atom + i)) return false;
      }
      if (!reader.take("]")) return false;
    }
    atom += atoms;
  }
  while (reader.take("+P")) {
    const Placement kind = reader.take("max") ? Placement::partial_max() : Placement::partial_sum();
    if (!place_all(layout, reader.take_axes(), kind)) return false;
  }
  return reader.at == reader.text.size();
}

}  // namespace

std::string to_string(const Layout& layout, const AtomShape& shape) {
  std::string text;
  std::size_t atom = 0;
  for (const std::uint8_t atoms : shape.atoms_of_dimension) {
    if (atoms == 0) text += 'R';
    if (atoms == 1) text += atom_text(layout, atom);
    if (atoms > 1) {
      for (std::size_t i = 0; i < atoms; ++i) text += (i == 0 ? "[" : " ") + atom_text(layout, atom + i);
      text += ']';
    }
    atom += atoms;
  }
  text += partial_text(layout, Placement::partial_sum(), "+P");
  return text + partial_text(layout, Placement::partial_max(), "+Pmax");
}

Result<Layout> parse_layout(std::string_view text, const AtomShape& shape, std::size_t mesh_rank) {
  Reader reader{text};
  Layout layout(mesh_rank);
  if (parse_all(reader, layout, shape)) return layout;
  return bad_input("layout '" + std::string(text) + "': cannot be read at position " + std::to_string(reader.at) +
                   "; write R or S and mesh axes for each atom, like S0R, R[R S1] or RR+P1");
}

}  // namespace meshwright
