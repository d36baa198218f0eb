// The builder API with all its families (see graph/builder/core.hpp).
#pragma once

#include <troupe/graph/builder/activations.hpp>
#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/attention.hpp>
#include <troupe/graph/builder/control.hpp>
#include <troupe/graph/builder/conv.hpp>
#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/builder/debug.hpp>
#include <troupe/graph/builder/image.hpp>
#include <troupe/graph/builder/index.hpp>
#include <troupe/graph/builder/layout.hpp>
#include <troupe/graph/builder/linear.hpp>
#include <troupe/graph/builder/losses.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/nn.hpp>
#include <troupe/graph/builder/norm.hpp>
#include <troupe/graph/builder/order.hpp>
#include <troupe/graph/builder/pool.hpp>
#include <troupe/graph/builder/quantize.hpp>
#include <troupe/graph/builder/random.hpp>
#include <troupe/graph/builder/recurrent.hpp>
#include <troupe/graph/builder/reduce.hpp>
#include <troupe/graph/builder/signal.hpp>
#include <troupe/graph/builder/softmax.hpp>
#include <troupe/graph/builder/summary.hpp>
#include <troupe/graph/builder/text.hpp>
