// Files of tensors in Python: safetensors, .npz, .npy.
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/python/bindings.hpp"
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/kernels/readers/npy.hpp>
#include <troupe/kernels/readers/npz.hpp>
#include <troupe/kernels/readers/safetensors.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// Other threads run Python while a file is read or written.
using released = nb::call_guard<nb::gil_scoped_release>;

using Named = std::vector<std::pair<std::string, Tensor>>;

std::vector<NamedTensor> named_tensors(const Named& tensors) {
  std::vector<NamedTensor> out;
  for (const auto& [name, tensor] : tensors) out.push_back({name, tensor});
  return out;
}

template <class File>
std::vector<std::string> names_in(const File& file) {
  std::vector<std::string> out;
  for (const TensorInfo& info : file.tensors()) out.push_back(info.name);
  return out;
}

}  // namespace

void bind_files(nb::module_& m) {
  nb::class_<SafetensorsFile>(m, "SafetensorsFile")
      .def("__init__", [](SafetensorsFile* self,
                          const std::string& path) { new (self) SafetensorsFile(file_system_of(path), path); })
      .def("names", &names_in<SafetensorsFile>)
      .def_prop_ro("metadata", &SafetensorsFile::metadata)
      .def(
          "read", [](SafetensorsFile& file, const std::string& name) { return file.read(name); }, released());
  nb::class_<NpzFile>(m, "NpzFile")
      .def("__init__", [](NpzFile* self, const std::string& path) { new (self) NpzFile(file_system_of(path), path); })
      .def("names", &names_in<NpzFile>)
      .def(
          "read", [](NpzFile& file, const std::string& name) { return file.read(name); }, released());
  m.def(
      "write_safetensors",
      [](const std::string& path, const Named& tensors, const SafetensorsMetadata& metadata) {
        write_safetensors(file_system_of(path), path, named_tensors(tensors), metadata);
      },
      released());
  m.def(
      "write_npz",
      [](const std::string& path, const Named& tensors, bool compress, bool zip64) {
        write_npz(file_system_of(path), path, named_tensors(tensors), {.compress = compress, .zip64 = zip64});
      },
      released());
  m.def(
      "read_npy", [](const std::string& path) { return read_npy(file_system_of(path), path); }, released());
  m.def(
      "write_npy", [](const std::string& path, const Tensor& tensor) { write_npy(file_system_of(path), path, tensor); },
      released());
}

}  // namespace troupe::python
