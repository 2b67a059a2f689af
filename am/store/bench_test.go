package store

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"patchbay/am"
)

// promise is what an Allocate of one node writes.
func promise(i int) ChangeSet {
	name := fmt.Sprint("n", i)
	s := sliver(name, name, 10)
	s.ClientID, s.Document, s.SliverType, s.Image, s.Created = "node0", name, "raw-pc", "debian-12", noon
	var cs ChangeSet
	cs.PutSlice(am.Slice{URN: s.Slice, Created: noon, Serial: 1})
	cs.PutSliver(s)
	cs.PutDocument(am.Document{ID: name, Slice: s.Slice, Received: noon, Text: []byte(strings.Repeat("<node/>", 100))})
	cs.Log(am.JournalEntry{At: noon, Event: "Allocate", Slice: s.Slice})
	return cs
}

// kept is how many promises the benchmarks write before they write the first
// one anew.
const kept = 16384

// share runs f b.N times in all from so many callers.
func share(b *testing.B, callers int, f func(i int) error) {
	b.ResetTimer()
	began := time.Now()
	var n atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for {
				i := n.Add(1)
				if i > int64(b.N) {
					return
				}
				if err := f(int(i) % kept); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "commits/s")
}

// BenchmarkCommit stands beside bbolt that is given the same keys and bytes,
// ready made, by Update (a write each) and by Batch (a write for many).
func BenchmarkCommit(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint("store/", callers), func(b *testing.B) {
			var writes atomic.Int64
			s := open(b, Options{commit: commitAfter(func() error { writes.Add(1); return nil })})
			defer func() { b.ReportMetric(float64(b.N)/float64(writes.Load()), "commits/write") }()
			share(b, callers, func(i int) error {
				return s.Commit(context.Background(), func(v *View) (ChangeSet, error) {
					cs := promise(i)
					_, _, err := v.Slice(sliceURN("other"))
					if err != ErrNotFound {
						return cs, err
					}
					return cs, nil
				})
			})
		})
		for _, way := range []string{"update", "batch"} {
			b.Run(fmt.Sprint("bbolt ", way, "/", callers), func(b *testing.B) {
				path := filepath.Join(b.TempDir(), "raw.db")
				e, err := openDatabase(path)
				if err != nil {
					b.Fatal(err)
				}
				defer e.close()
				ready := make([][]op, kept)
				tx, err := e.db.Begin(false)
				if err != nil {
					b.Fatal(err)
				}
				v := &View{r: reader{tx.Bucket(root)}}
				for i := range ready {
					cs := promise(i)
					cs.number(Rev(i + 1))
					if ready[i], err = operations(v, cs, Rev(i+1)); err != nil {
						b.Fatal(err)
					}
					ready[i] = append(ready[i], revisionOp(Rev(i)))
				}
				if err := tx.Rollback(); err != nil {
					b.Fatal(err)
				}
				do := e.db.Update
				if way == "batch" {
					e.db.MaxBatchDelay = time.Millisecond
					e.db.MaxBatchSize = callers
					do = e.db.Batch
				}
				share(b, callers, func(i int) error {
					return do(func(tx *bbolt.Tx) error {
						top := tx.Bucket(root)
						for _, o := range ready[i] {
							if err := top.Bucket([]byte(o.bucket)).Put(o.key, o.value); err != nil {
								return err
							}
						}
						return nil
					})
				})
			})
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "store.db")
	s, err := Open(path, Options{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 100 {
		commit(b, s, func(*View) (ChangeSet, error) {
			var cs ChangeSet
			for j := range 1000 {
				cs.PutSliver(sliver(fmt.Sprint(i, "-", j), fmt.Sprint(i), 1))
			}
			return cs, nil
		})
	}
	s.Close()
	for b.Loop() {
		s, err := Open(path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if all, err := s.Slivers(); err != nil || len(all) != 100_000 {
			b.Fatal(len(all), err)
		}
		s.Close()
	}
}
