#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <vector>

namespace sliceport {

/// A list that allocates nothing as long as it has no more than N elements.
template <class T, size_t N = 8>
class InlineVector {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    InlineVector() = default;
    InlineVector(std::initializer_list<T> values) {
        for (const auto& value : values)
            push_back(value);
    }

    void push_back(const T& value) {
        if (m_size < N) {
            m_inline[m_size] = value;
        } else {
            if (m_size == N)
                m_heap.assign(m_inline.begin(), m_inline.end());
            m_heap.push_back(value);
        }
        ++m_size;
    }
    void pop_back() {
        --m_size;
        if (m_size > N) {
            m_heap.pop_back();
        } else if (m_size == N) {  // The elements fit inline again.
            for (size_t i = 0; i < N; ++i)
                m_inline[i] = m_heap[i];
        }
    }

    size_t size() const {
        return m_size;
    }
    bool empty() const {
        return m_size == 0;
    }
    T* begin() {
        return m_size <= N ? m_inline.data() : m_heap.data();
    }
    T* end() {
        return begin() + m_size;
    }
    const T* begin() const {
        return m_size <= N ? m_inline.data() : m_heap.data();
    }
    const T* end() const {
        return begin() + m_size;
    }
    T& operator[](size_t i) {
        return begin()[i];
    }
    const T& operator[](size_t i) const {
        return begin()[i];
    }
    T& back() {
        return end()[-1];
    }
    const T& back() const {
        return end()[-1];
    }

private:
    size_t m_size = 0;
    std::array<T, N> m_inline{};  // Initialised, because copying the list reads all elements.
    std::vector<T> m_heap;
};

}  // namespace sliceport
