package storetest

import (
	"hash/fnv"
	"strings"
)

// node is an ordered map that is never changed: with and without make another,
// which shares with this one what is the same. It is a tree by keys and a heap by
// weights, which are as good as random; nil is empty.
type node struct {
	key         string
	value       []byte
	weight      uint64
	left, right *node
}

func weigh(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	// The last bytes of a key hardly reach the upper bits.
	w := h.Sum64()
	w = (w ^ w>>32) * 0x9e3779b97f4a7c15
	return w ^ w>>29
}

func (n *node) get(key string) []byte {
	for n != nil && n.key != key {
		if key < n.key {
			n = n.left
		} else {
			n = n.right
		}
	}
	if n == nil {
		return nil
	}
	return n.value
}

// with is n and key. A key keeps its weight, so it stands where it would have
// stood had it been there from the beginning.
func (n *node) with(key string, value []byte) *node {
	added := &node{key: key, value: value, weight: weigh(key)}
	if n != nil && n.key == key {
		added.left, added.right = n.left, n.right
		return added
	}
	if n == nil || added.weight > n.weight {
		added.left, added.right = n.split(key)
		return added
	}
	c := *n
	if key < n.key {
		c.left = n.left.with(key, value)
	} else {
		c.right = n.right.with(key, value)
	}
	return &c
}

// split gives what is before key, which is not there, and what is after it.
func (n *node) split(key string) (before, after *node) {
	if n == nil {
		return nil, nil
	}
	c := *n
	if n.key < key {
		c.right, after = n.right.split(key)
		return &c, after
	}
	before, c.left = n.left.split(key)
	return before, &c
}

func (n *node) without(key string) *node {
	if n == nil {
		return nil
	}
	if n.key == key {
		return join(n.left, n.right)
	}
	c := *n
	if key < n.key {
		c.left = n.left.without(key)
	} else {
		c.right = n.right.without(key)
	}
	return &c
}

// join is both, all of a before all of b.
func join(a, b *node) *node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.weight > b.weight:
		c := *a
		c.right = join(a.right, b)
		return &c
	}
	c := *b
	c.left = join(a, b.left)
	return &c
}

// scan calls f for each key with the prefix that is not before from, until it
// returns false.
func (n *node) scan(prefix, from string, f func(k, v []byte) bool) bool {
	if n == nil {
		return true
	}
	if n.key >= from {
		if !n.left.scan(prefix, from, f) || !strings.HasPrefix(n.key, prefix) || !f([]byte(n.key), n.value) {
			return false
		}
	}
	return n.right.scan(prefix, from, f)
}
