package binder

import "fmt"

// pool is a set of names, such as tags or addresses, each held or free. It has only names of
// the current inventory.
type pool[K comparable] struct {
	names   []K
	place   map[K]int
	holders []int32
	free    tree
	held    int // the number of held names
}

func newPool[K comparable](names []K) pool[K] {
	p := pool[K]{names: names, place: make(map[K]int, len(names)), holders: make([]int32, len(names)), free: newTree(len(names))}
	for i, n := range names {
		p.place[n] = i
		p.free.set(i, 1)
	}
	return p
}

// count ignores a name that the pool does not have.
func (p *pool[K]) count(n K, sign int32) {
	i, ok := p.place[n]
	if !ok {
		return
	}
	p.holders[i] += sign
	free := int32(0)
	if p.holders[i] == 0 {
		free = 1
	}
	if was := p.free.at(i); was != free {
		p.free.set(i, free)
		p.held += int(was - free)
	}
}

func (p *pool[K]) shortageText(what string, asked int) string {
	total := len(p.names)
	if free := total - p.held; free > 0 {
		return fmt.Sprintf("the request asks for %d %s; this aggregate has %d, of which %d free", asked, what, total, free)
	}
	return fmt.Sprintf("none of the %d %s of this aggregate is free", total, what)
}

// retryHint returns "" if waiting cannot help.
func (p *pool[K]) retryHint(asked int) string {
	if asked > len(p.names) {
		return ""
	}
	return ", or try again later"
}
