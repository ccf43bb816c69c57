package sync

import (
	"context"
	"testing"
	"testing/synctest"
)

// One registry has half of the places, and what waits for one keeps nobody of another waiting.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		in := map[string]int{}
		entered := make(chan string, 100)
		leave := make(chan struct{})
		enter := func(host string) {
			go func() {
				done, err := g.enter(t.Context(), host, 4)
				if err != nil {
					t.Error(err)
					return
				}
				entered <- host
				<-leave
				done()
			}()
		}
		count := func() map[string]int {
			synctest.Wait()
			for len(entered) > 0 {
				in[<-entered]++
			}
			return in
		}
		for range 5 {
			enter("slow")
		}
		wantEqual(t, "in", map[string]int{"slow": 2}, count())
		for range 3 {
			enter("other")
		}
		wantEqual(t, "in", map[string]int{"slow": 2, "other": 2}, count())
		enter("third")
		wantEqual(t, "in, all places taken", map[string]int{"slow": 2, "other": 2}, count())

		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := g.enter(ctx, "slow", 4)
			failed <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-failed; err == nil {
			t.Error("whoever gives up waiting got in")
		}
		close(leave)
		wantEqual(t, "in, all in all", map[string]int{"slow": 5, "other": 3, "third": 1}, count())
		if len(g.hosts) != 0 {
			t.Errorf("%d hosts are remembered, though nobody is in", len(g.hosts))
		}
	})
}

func TestGateNarrow(t *testing.T) {
	var g gate
	leave, err := g.enter(t.Context(), "a", 1)
	must(t, err)
	leave()
	leave, err = g.enter(t.Context(), "b", 1)
	must(t, err)
	leave()
}
