package site

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// work runs the runner until ctx ends; a read-only site has no work.
func (s *Site) work(ctx context.Context) error {
	if !s.config.readOnly {
		return s.runner.Run(ctx)
	}
	s.working.Store(true)
	<-ctx.Done()
	return nil
}

// serve answers calls until ctx ends, then stops in order: no new calls, the
// calls in progress, the runner, the local testbeds, the store.
func (s *Site) serve(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	workers, stopWorkers := context.WithCancel(context.WithoutCancel(ctx))
	runnerEnded := make(chan error, 1)
	go func() {
		err := s.work(workers)
		s.working.Store(false)
		if err != nil && workers.Err() == nil {
			stop(fmt.Errorf("the runner has ended: %w", err))
		}
		runnerEnded <- err
	}()
	telling, stopTelling := context.WithCancel(context.WithoutCancel(ctx))
	defer stopTelling()
	told := make(chan struct{})
	if s.config.readOnly {
		close(told)
	} else {
		told = s.runHooks(telling)
	}
	var tending sync.WaitGroup
	tending.Go(func() { s.audit.Run(workers) })
	tending.Go(func() { s.clock.Run(workers) })
	serving := 1
	served := make(chan error, 3)
	go func() { served <- s.server.Serve(s.tls.Listener(s.server.Limit(s.listener))) }()
	if s.admin != nil {
		serving++
		go func() { served <- s.server.ServeAdmin(s.admin) }()
	}
	if s.socket != nil {
		serving++
		go func() { served <- s.server.ServeSocket(s.socket) }()
	}

	var failed error
	select {
	case <-ctx.Done():
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			failed = cause
		}
	case failed = <-served:
		serving--
	}
	s.log.Info("stopping: no new calls, finishing those in progress")
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.StopTimeout)
	defer cancel()
	if err := s.server.Shutdown(patience); err != nil {
		s.log.Warn("calls were cut off", "error", err)
	}
	for ; serving > 0; serving-- {
		<-served
	}
	stopWorkers()
	<-runnerEnded
	stopTelling()
	<-told
	tending.Wait()
	s.testbeds.stop()
	s.audit.Stop()
	return errors.Join(failed, s.Close())
}
