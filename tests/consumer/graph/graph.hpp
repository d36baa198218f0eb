// A header of the project's own that has the name of one of Troupe's.
#pragma once

inline const char* own_graph() { return "a graph of its own"; }
