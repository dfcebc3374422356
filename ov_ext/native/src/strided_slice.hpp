#pragma once

#include "slicing_op.hpp"

namespace sliceport {

/// StridedSlice-1: inputs data, begin, end and, optionally, strides, and five masks.
class StridedSlice : public SlicingOp {
public:
    OPENVINO_OP("StridedSlice1", "ov_ext")

    StridedSlice() = default;
    StridedSlice(const ov::OutputVector& arguments,
                 std::shared_ptr<const Masks> masks,
                 std::shared_ptr<const Indices> fixed = nullptr);

    bool visit_attributes(ov::AttributeVisitor& visitor) override;

protected:
    std::shared_ptr<ov::Node> make_with(const ov::OutputVector& inputs,
                                        std::shared_ptr<const Indices> fixed) const override;
    InlineVector<const char*> index_names() const override {
        return {"begin", "end", "strides"};
    }
    void check_inputs() const override;
    std::optional<OutputSizes> output_dimensions(const InlineVector<Bounds>& sizes,
                                                 const IndicesBounds& indices) const override;
    Region region(const ov::Shape& shape, const Indices& indices) const override;

private:
    /// The masks, which clones share: a dynamic model clones the node at each inference.
    std::shared_ptr<const Masks> m_masks = std::make_shared<const Masks>();
};

}  // namespace sliceport
