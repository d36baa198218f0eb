// Layers and networks of them: graph/layers/network.hpp. To write a layer of one's own: graph/layers/layer.hpp.
#pragma once

#include <troupe/graph/layers/attention.hpp>
#include <troupe/graph/layers/conv.hpp>
#include <troupe/graph/layers/core.hpp>
#include <troupe/graph/layers/network.hpp>
#include <troupe/graph/layers/norm.hpp>
#include <troupe/graph/layers/preprocessing.hpp>
#include <troupe/graph/layers/recurrent.hpp>
#include <troupe/graph/layers/shape.hpp>
