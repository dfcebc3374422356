/// The base of both operators: shapes from bounds, propagation of known values, evaluation by copies of bytes.

#pragma once

#include <array>
#include <optional>

#include "openvino/op/op.hpp"
#include "slicing.hpp"
#include "static_values.hpp"

namespace sliceport {

/// A slicing operator of version `ov_ext`, as in `ov_ext/slicing_op.py`.
class SlicingOp : public ov::op::Op {
public:
    void validate_and_infer_types() override;
    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override;
    bool has_evaluate() const override {
        return true;
    }
    /// Computes the output from packed tensors. The function does not check that the tensors are packed, because for
    /// small tensors the check takes longer than everything else.
    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override;
    /// Computes the output from tensors that need not be packed. `ov::Model` calls this function.
    bool evaluate(ov::TensorVector& outputs,
                  const ov::TensorVector& inputs,
                  const ov::EvaluationContext& context) const override;
    bool evaluate_lower(ov::TensorVector& outputs) const override {
        return evaluate_bound(outputs, true);
    }
    bool evaluate_upper(ov::TensorVector& outputs) const override {
        return evaluate_bound(outputs, false);
    }
    bool evaluate_symbol(ov::TensorSymbolVector& output_symbols) const override;
    bool can_constant_fold(const ov::OutputVector& inputs) const override;
    bool constant_fold(ov::OutputVector& outputs, const ov::OutputVector& inputs) override;

protected:
    static constexpr size_t max_index_inputs = 4;

    /// One value for each of `count` lists of indices.
    template <class T>
    struct PerInput {
        std::array<T, max_index_inputs> of;
        size_t count = 0;
    };
    using Indices = PerInput<Integers>;
    using IndicesBounds = PerInput<std::optional<IndexBounds>>;

    /// Returns the bounds of an entry of an index input, or `any_index` if they are not known.
    static Bounds bounds_at(const IndicesBounds& indices, size_t index, size_t entry) {
        return indices.of[index] ? (*indices.of[index])[entry] : any_index;
    }

    /// Returns an entry of an index input, or nothing if it is not known exactly.
    static std::optional<int64_t> exact_at(const IndicesBounds& indices, size_t index, size_t entry) {
        const auto bounds = bounds_at(indices, index, entry);
        return bounds.is_exact() ? std::make_optional(bounds.low.value) : std::nullopt;
    }

    /// A size of the output, and the input axis that always has this size, or -1.
    struct OutputSize {
        Bounds bounds;
        int64_t axis;
    };
    using OutputSizes = InlineVector<OutputSize>;

    SlicingOp() = default;
    SlicingOp(const ov::OutputVector& arguments, std::shared_ptr<const Indices> fixed)
        : Op(arguments),
          m_fixed(std::move(fixed)) {}

    /// Builds the same operator on other inputs and fixed indices.
    virtual std::shared_ptr<ov::Node> make_with(const ov::OutputVector& inputs,
                                                std::shared_ptr<const Indices> fixed) const = 0;

    /// Returns the names of the lists of indices, in order. The last list is optional.
    virtual InlineVector<const char*> index_names() const = 0;

    /// Throws InvalidSlice if the rank, length or type of an index input, or an attribute, breaks a rule.
    virtual void check_inputs() const = 0;

    /// Returns the output sizes from the bounds of the sizes of the data, or nothing if the output's rank is open.
    /// Throws InvalidSlice if the indices break a rule of the operator.
    virtual std::optional<OutputSizes> output_dimensions(const InlineVector<Bounds>& sizes,
                                                         const IndicesBounds& indices) const = 0;

    /// Returns the region that indices select from data of a shape. Throws InvalidSlice if they break a rule.
    virtual Region region(const ov::Shape& shape, const Indices& indices) const = 0;

    /// Throws an exception of OpenVINO. Its message is `sentence`, after the names of operator and node.
    [[noreturn]] void throw_invalid(const std::string& sentence) const;

    /// Reads or writes fixed indices, as attributes with the names of their inputs.
    void visit_fixed(ov::AttributeVisitor& visitor);

    /// Returns the number of entries, or nothing if it is open.
    std::optional<int64_t> entry_count() const;

    /// Throws InvalidSlice unless the index inputs are lists of integers of one length, up to `max_length` if that is
    /// above 0.
    void check_lists(int64_t max_length = 0) const;

private:
    size_t index_count() const;
    const Integers* fixed(size_t index) const;
    size_t input_of(size_t index) const;
    Indices read_indices(const ov::TensorVector& inputs) const;
    void infer();
    bool can_fix(const ov::OutputVector& inputs) const;
    void remove_narrowing_marks();
    IndicesBounds index_bounds() const;
    std::optional<Indices> exact_indices() const;
    std::optional<Sizes> find_exact_sizes() const;
    std::optional<int64_t> check_list(size_t input, const char* name) const;
    bool evaluate_bound(ov::TensorVector& outputs, bool lower) const;

    /// Indices that are attributes instead of inputs. An empty list stands for indices that are still an input.
    ///
    /// At each inference, the CPU plugin makes a tensor for each input of a node, and if the model is dynamic, also a
    /// new node. That takes longer than a small slice itself: with constant inputs, such a slice takes 1.45 times as
    /// long as the built-in operator, with attributes 1.05 times. So when the plugin folds constants, constant indices
    /// become attributes.
    std::shared_ptr<const Indices> m_fixed;
    /// Whether an index input has ever had another type than i32. If its type is i32 now, a plugin has narrowed it.
    bool m_had_wide_indices = false;
};

}  // namespace sliceport
