#pragma once

#include "slicing_op.hpp"

namespace sliceport {

/// Slice-8: inputs data, start, stop, step and, optionally, axes. Without axes, entry `i` is about axis `i`.
class Slice : public SlicingOp {
public:
    OPENVINO_OP("Slice8", "ov_ext")

    Slice() = default;
    explicit Slice(const ov::OutputVector& arguments, std::shared_ptr<const Indices> fixed = nullptr);

    bool visit_attributes(ov::AttributeVisitor& visitor) override;

protected:
    std::shared_ptr<ov::Node> make_with(const ov::OutputVector& inputs,
                                        std::shared_ptr<const Indices> fixed) const override;
    InlineVector<const char*> index_names() const override {
        return {"start", "stop", "step", "axes"};
    }
    void check_inputs() const override;
    std::optional<OutputSizes> output_dimensions(const InlineVector<Bounds>& sizes,
                                                 const IndicesBounds& indices) const override;
    Region region(const ov::Shape& shape, const Indices& indices) const override;

private:
    std::optional<Sizes> entry_axes(const IndicesBounds& indices, int64_t rank) const;
};

}  // namespace sliceport
