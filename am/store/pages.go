package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// pages looks at a bbolt file page by page, before bbolt maps it: bbolt trusts
// what it reads, and a single wrong number would have it read anywhere, or turn in
// circles until the process ends. Numbers are in the order of this machine.
//
//	page     id 8, flags 2, count 2, further pages 4; then count elements
//	leaf     flags 4, place of the key 4, its size 4, size of the value 4
//	branch   place of the key 4, its size 4, page 8
//	free     the numbers of pages, 8 each
//	meta     magic 4, version 4, page size 4, flags 4, root 8 and 8, free list 8,
//	         pages in all 8, transaction 8, sum of these 8
type pages struct {
	r    io.ReaderAt
	size int64 // of the file
	page int64 // bytes of a page
	meta meta
	use  []use // of each page
}

type use byte

const (
	unused use = iota
	free
	used
)

const (
	branchPage = 0x01
	leafPage   = 0x02
	metaPage   = 0x04
	freePage   = 0x10

	bucketElement = 0x01

	pageHeader   = 16
	element      = 16
	bucketHeader = 16
	metaSize     = 64

	boltMagic   = 0xED0CDAED
	boltVersion = 2
	noFreelist  = ^uint64(0)

	maxDepth = 64 // far beyond what a file can need
)

type meta struct {
	root, freelist, pages, tx uint64
}

var native = binary.NativeEndian

// check refuses a file that bbolt must not be given. stale says that of the two
// pages that tell where the rest is, the one is damaged, and so a change may be
// missing.
func (p *pages) check() (stale bool, err error) {
	if stale, err = p.readMeta(); err != nil {
		return false, err
	}
	if n := uint64(p.size / p.page); p.meta.pages > n {
		return false, fmt.Errorf("%d of %d pages are there", n, p.meta.pages)
	}
	p.use = make([]use, p.meta.pages)
	p.use[0], p.use[1] = used, used
	if p.meta.freelist != noFreelist {
		if err := p.freelist(p.meta.freelist); err != nil {
			return false, err
		}
	}
	return stale, p.tree(p.meta.root, nil, nil, 0)
}

// lost is how many pages are neither used nor free.
func (p *pages) lost() (n int) {
	for _, u := range p.use {
		if u == unused {
			n++
		}
	}
	return n
}

// readMeta takes the later of the two pages, as bbolt does.
func (p *pages) readMeta() (stale bool, err error) {
	found := 0
	for n := range int64(2) {
		b := make([]byte, pageHeader+metaSize)
		if _, err := p.r.ReadAt(b, n*p.page); err != nil {
			return false, err
		}
		sum := fnv.New64a()
		b = b[pageHeader:]
		sum.Write(b[:metaSize-8])
		if native.Uint32(b) != boltMagic || native.Uint32(b[4:]) != boltVersion || native.Uint64(b[metaSize-8:]) != sum.Sum64() {
			continue
		}
		if m := (meta{native.Uint64(b[16:]), native.Uint64(b[32:]), native.Uint64(b[40:]), native.Uint64(b[48:])}); found == 0 || m.tx > p.meta.tx {
			p.meta = m
		}
		found++
	}
	if found == 0 {
		return false, errors.New("neither of its first pages is one of bbolt")
	}
	if p.meta.pages < 4 || p.meta.pages > 1<<40 {
		return false, fmt.Errorf("it says to have %d pages", p.meta.pages)
	}
	return found == 1, nil
}

// read reads a page with all that belongs to it, and marks it as used.
func (p *pages) read(id uint64, want uint16) (b []byte, err error) {
	if id < 2 || id >= p.meta.pages {
		return nil, fmt.Errorf("page %d is named, and there are %d", id, p.meta.pages)
	}
	head := make([]byte, pageHeader)
	if _, err := p.r.ReadAt(head, int64(id)*p.page); err != nil {
		return nil, err
	}
	if got := native.Uint64(head); got != id {
		return nil, fmt.Errorf("page %d says to be page %d", id, got)
	}
	if flags := native.Uint16(head[8:]); flags&^want != 0 || flags == 0 || flags&(flags-1) != 0 {
		return nil, fmt.Errorf("page %d is of the kind %#x", id, flags)
	}
	further := uint64(native.Uint32(head[12:]))
	if further >= p.meta.pages-id {
		return nil, fmt.Errorf("page %d is to have %d further ones, and there are %d in all", id, further, p.meta.pages)
	}
	for i := id; i <= id+further; i++ {
		switch p.use[i] {
		case used:
			return nil, fmt.Errorf("page %d is used twice", i)
		case free:
			return nil, fmt.Errorf("page %d is used, and said to be free", i)
		}
		p.use[i] = used
	}
	b = make([]byte, int64(further+1)*p.page)
	if _, err := p.r.ReadAt(b, int64(id)*p.page); err != nil {
		return nil, err
	}
	return b, nil
}

func (p *pages) freelist(id uint64) error {
	b, err := p.read(id, freePage)
	if err != nil {
		return err
	}
	n, ids := uint64(native.Uint16(b[10:])), b[pageHeader:]
	if n == 0xFFFF { // too many to be told there
		n, ids = native.Uint64(ids), ids[8:]
	}
	if n > uint64(len(ids)/8) {
		return fmt.Errorf("page %d has no room for %d free pages", id, n)
	}
	for i := range n {
		x := native.Uint64(ids[8*i:])
		if x < 2 || x >= p.meta.pages || p.use[x] != unused {
			return fmt.Errorf("page %d cannot be free", x)
		}
		p.use[x] = free
	}
	return nil
}

// tree looks at a page and what is below it, whose keys are not before low, and
// before high if that is not nil.
func (p *pages) tree(id uint64, low, high []byte, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("page %d is %d pages below the first", id, depth)
	}
	b, err := p.read(id, branchPage|leafPage)
	if err != nil {
		return err
	}
	if native.Uint16(b[8:]) == leafPage {
		return p.leaf(id, b, low, high, depth)
	}
	n := int(native.Uint16(b[10:]))
	if n == 0 {
		return fmt.Errorf("page %d leads nowhere", id)
	}
	// What all keys are is known before anything below is read.
	keys := make([][]byte, n)
	for i := range keys {
		at, ok := elementAt(b, i)
		if !ok {
			return beyond(id)
		}
		e := b[at:]
		if keys[i], ok = cut(e, native.Uint32(e), native.Uint32(e[4:])); !ok {
			return beyond(id)
		}
	}
	if err := ordered(id, keys, low, high); err != nil {
		return err
	}
	for i := range keys {
		at, _ := elementAt(b, i)
		end := high
		if i+1 < n {
			end = keys[i+1]
		}
		if err := p.tree(native.Uint64(b[at+8:]), keys[i], end, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// leaf looks at a page of keys and values, and at the buckets among these.
func (p *pages) leaf(id uint64, b, low, high []byte, depth int) error {
	n := int(native.Uint16(b[10:]))
	keys := make([][]byte, n)
	for i := range keys {
		at, ok := elementAt(b, i)
		if !ok {
			return beyond(id)
		}
		e := b[at:]
		pos, keySize, valueSize := native.Uint32(e[4:]), native.Uint32(e[8:]), native.Uint32(e[12:])
		value, ok := cut(e, pos, keySize)
		if ok {
			keys[i] = value
			value, ok = cut(e, pos+keySize, valueSize)
		}
		if !ok || pos+keySize < pos {
			return beyond(id)
		}
		switch flags := native.Uint32(e); flags {
		case 0:
		case bucketElement:
			if err := p.bucket(id, value, depth+1); err != nil {
				return err
			}
		default:
			return fmt.Errorf("page %d has an element of the kind %#x", id, flags)
		}
	}
	return ordered(id, keys, low, high)
}

// bucket looks at a bucket, which has a tree of its own, or is small and all
// there.
func (p *pages) bucket(id uint64, value []byte, depth int) error {
	if len(value) < bucketHeader {
		return beyond(id)
	}
	if depth > maxDepth {
		return fmt.Errorf("page %d has buckets within buckets", id)
	}
	if below := native.Uint64(value); below != 0 {
		return p.tree(below, nil, nil, depth)
	}
	b := value[bucketHeader:]
	if len(b) < pageHeader || native.Uint16(b[8:]) != leafPage {
		return fmt.Errorf("a small bucket in page %d is none", id)
	}
	return p.leaf(id, b, nil, nil, depth)
}

func elementAt(b []byte, i int) (int, bool) {
	at := pageHeader + i*element
	return at, at+element <= len(b)
}

// cut is what is told by its place from the element's beginning.
func cut(e []byte, pos, size uint32) ([]byte, bool) {
	end := uint64(pos) + uint64(size)
	if end > uint64(len(e)) {
		return nil, false
	}
	return e[pos:end], true
}

func beyond(id uint64) error { return fmt.Errorf("page %d tells of what is beyond its end", id) }

func ordered(id uint64, keys [][]byte, low, high []byte) error {
	for i, k := range keys {
		if i > 0 && bytes.Compare(keys[i-1], k) >= 0 || i == 0 && bytes.Compare(k, low) < 0 || high != nil && bytes.Compare(k, high) >= 0 {
			return fmt.Errorf("key %d of page %d is out of order", i, id)
		}
	}
	return nil
}
