/// What the two operators have in common: shapes from bounds, values that pass through, evaluation by bytes.

#pragma once

#include <array>
#include <optional>

#include "openvino/op/op.hpp"
#include "slicing.hpp"
#include "static_values.hpp"

namespace sliceport {

/// A slicing operator of version `ov_ext`: that of `ov_ext/slicing_op.py`.
class SlicingOp : public ov::op::Op {
public:
    void validate_and_infer_types() override;
    bool has_evaluate() const override;
    /// Takes packed tensors: to ask whether they are takes OpenVINO longer than all the rest for a small one.
    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override;
    /// What `ov::Model` calls: takes parts of tensors as well.
    bool evaluate(ov::TensorVector& outputs,
                  const ov::TensorVector& inputs,
                  const ov::EvaluationContext& context) const override;
    bool evaluate_lower(ov::TensorVector& outputs) const override;
    bool evaluate_upper(ov::TensorVector& outputs) const override;
    bool evaluate_symbol(ov::TensorSymbolVector& output_symbols) const override;
    bool can_constant_fold(const ov::OutputVector& inputs) const override;
    bool constant_fold(ov::OutputVector& outputs, const ov::OutputVector& inputs) override;

protected:
    static constexpr size_t max_index_inputs = 4;

    /// Values of something for each index input.
    template <class T>
    struct PerInput {
        std::array<T, max_index_inputs> of;
        size_t count = 0;
    };
    using Indices = PerInput<Integers>;
    using IndicesBounds = PerInput<std::optional<IndexBounds>>;

    /// A size of the output, and the input axis whose size it surely is, or -1.
    struct OutputSize {
        Bounds bounds;
        int64_t axis;
    };
    using OutputSizes = InlineVector<OutputSize>;

    SlicingOp() = default;
    SlicingOp(const ov::OutputVector& arguments, std::shared_ptr<const Indices> fixed);

    /// The same operator of other inputs and fixed indices.
    virtual std::shared_ptr<ov::Node> make_with(const ov::OutputVector& inputs,
                                                std::shared_ptr<const Indices> fixed) const = 0;

    /// Checks the number of inputs.
    virtual void check_count(size_t count) const = 0;

    /// Checks ranks, lengths and types of the index inputs, and attributes.
    virtual void check_inputs() const = 0;

    /// Bounds of each output size; nothing if the rank is not known.
    virtual std::optional<OutputSizes> output_dimensions(const InlineVector<Bounds>& sizes,
                                                         const IndicesBounds& indices) const = 0;

    /// What is selected from data of a shape.
    virtual Region region(const ov::Shape& shape, const Indices& indices) const = 0;

    /// Throws a sentence that begins with operator and node.
    [[noreturn]] void throw_invalid(const std::string& sentence) const;

    /// Indices that are fixed, as attributes of the names of their inputs.
    void visit_fixed(ov::AttributeVisitor& visitor, const char* const* names, size_t count);

    /// The length of the index inputs, if it is known of one.
    std::optional<int64_t> entry_count() const;

    using Lengths = PerInput<std::optional<int64_t>>;

    /// Checks that the index inputs are lists of integers, and gives their lengths where they are known.
    ///
    /// \param check  Called with each length that is known and the name of its input.
    template <class Check>
    Lengths check_lists(const char* const* names, const Check& check) const {
        Lengths lengths;
        lengths.count = index_count();
        for (size_t i = 0; i < lengths.count; ++i) {
            lengths.of[i] = check_list(i, names[i]);
            if (lengths.of[i])
                check(*lengths.of[i], names[i]);
        }
        return lengths;
    }

    /// Checks that the lengths that are known are one.
    static void check_lengths(const char* rule, const char* const* names, const Lengths& lengths);

    const std::shared_ptr<const Indices>& fixed_indices() const {
        return m_fixed;
    }

private:
    size_t index_count() const;
    const Integers* fixed(size_t index) const;
    size_t input_of(size_t index) const;
    Indices read_indices(const ov::TensorVector& inputs) const;
    void infer();
    bool can_fix(const ov::OutputVector& inputs) const;
    void forget_narrowing();
    IndicesBounds index_bounds() const;
    std::optional<Sizes> find_exact_sizes() const;
    void pass_values(const IndicesBounds& indices);
    std::optional<int64_t> check_list(size_t index, const char* name) const;
    bool evaluate_bound(ov::TensorVector& outputs, bool lower) const;

    /// Indices that are no inputs but attributes; a list that is empty is still an input.
    ///
    /// For each input of a node the CPU plugin makes a tensor at each inference, and a node if the model is dynamic:
    /// that takes longer than a small slice. So where it folds constants, indices that are constant become these.
    std::shared_ptr<const Indices> m_fixed;
    bool m_had_wide_indices = false;
};

}  // namespace sliceport
