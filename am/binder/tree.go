package binder

// tree holds a number for each place. It finds the first place, from a given place on,
// whose number is large enough. All methods take logarithmic time.
type tree struct {
	base int     // places, rounded up to a power of two
	max  []int32 // max[1] is the root, max[base+i] is place i; nil while all are 0
}

func newTree(places int) tree {
	base := 1
	for base < places {
		base *= 2
	}
	return tree{base: base}
}

func (t *tree) at(i int) int32 {
	if t.max == nil {
		return 0
	}
	return t.max[t.base+i]
}

func (t *tree) set(i int, v int32) {
	if t.max == nil {
		if v == 0 {
			return
		}
		t.max = make([]int32, 2*t.base)
	}
	i += t.base
	t.max[i] = v
	for i > 1 {
		i /= 2
		m := max(t.max[2*i], t.max[2*i+1])
		if t.max[i] == m {
			return
		}
		t.max[i] = m
	}
}

// next returns the first place with a number of at least v, or -1. The search begins at the
// place start. v must be positive.
func (t *tree) next(start int, v int32) int {
	if t.max == nil || start >= t.base {
		return -1
	}
	i := t.base + start
	for t.max[i] < v {
		for i&1 == 1 { // a right child: continue after its parent
			i /= 2
		}
		if i == 0 {
			return -1
		}
		i++
	}
	for i < t.base {
		i *= 2
		if t.max[i] < v {
			i++
		}
	}
	return i - t.base
}
