package store

import (
	"context"
	"fmt"
	"time"
)

// answerTime is how long a volume may take to answer a small question.
const answerTime = 5 * time.Second

// Ping tells whether the volume still answers: one over a network can leave whoever asks waiting for good. One that says that something
// is wrong answers, too. Nothing is written, and no more than one question waits.
func (s *Store) Ping(ctx context.Context) error {
	answered := s.ask()
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the volume does not answer: %w", ctx.Err())
	}
}

// ask asks the volume something, unless an earlier question still waits, and returns what is closed when there is an answer.
func (s *Store) ask() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked != nil {
		return s.asked
	}
	answered := make(chan struct{})
	s.asked = answered
	go func() {
		touch(s.volume, formatFile)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = nil
		close(answered)
	}()
	return answered
}
