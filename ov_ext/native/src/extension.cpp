#include "openvino/core/op_extension.hpp"

#include "slice.hpp"
#include "strided_slice.hpp"

OPENVINO_CREATE_EXTENSIONS((std::vector<ov::Extension::Ptr>{
    std::make_shared<ov::OpExtension<sliceport::StridedSlice>>(),
    std::make_shared<ov::OpExtension<sliceport::Slice>>(),
}))
