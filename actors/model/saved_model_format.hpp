// The content of the two files of a saved model (saved_model.hpp) that are not tensors. Readers trust nothing.
#pragma once

#include <string>
#include <string_view>

#include <troupe/actors/model/saved_model.hpp>

namespace troupe {

inline constexpr std::string_view kAssetPrefix = "assets/";  // of the paths of assets in SavedModelInfo

// model.pb: all of a model but its values, optimizer and assets. Equal models give equal bytes. Throws like
// save_model().
std::string encode_model(const SavedModel& model);
// Throws like read_model().
SavedModel decode_model(std::string_view bytes, const LoadModelOptions& options = {});

// metadata.json. decode throws data_loss, and unimplemented for a later format.
std::string encode_info(const SavedModelInfo& info);
SavedModelInfo decode_info(std::string_view text);

// Whether a name may be that of an asset: of one component, without control characters.
bool is_asset_name(std::string_view name);

}  // namespace troupe
