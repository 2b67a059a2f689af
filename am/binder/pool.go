package binder

// pool is a set of names, such as tags or addresses, of which each is held or
// free. Those that the inventory no longer has are nowhere.
type pool[K comparable] struct {
	names   []K
	place   map[K]int
	holders []int32
	free    tree
	held    int // how many names are held
}

func newPool[K comparable](names []K) pool[K] {
	p := pool[K]{names: names, place: make(map[K]int, len(names)), holders: make([]int32, len(names)), free: newTree(len(names))}
	for i, n := range names {
		p.place[n] = i
		p.free.set(i, 1)
	}
	return p
}

// count adds sign to the holders of n.
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
