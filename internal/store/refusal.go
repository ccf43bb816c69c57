package store

import (
	"encoding/json"
	"path"
)

// Refusal is the reason why an image cannot become a snapshot.
type Refusal struct {
	Reason  string `json:"reason,omitempty"` // machine-readable; may be empty
	Message string `json:"message"`
}

// RecordRefusal records why the image of a key was refused, so that polls do not pull the same digest again. The record ends
// with the process; a lost record costs one more pull.
func (s *Store) RecordRefusal(key string, refusal Refusal) {
	record, err := json.Marshal(refusal)
	if err == nil {
		err = s.volume.writeFile(path.Join(refusedDir, key), bytesOf(record))
	}
	if err != nil {
		s.opts.Logger.Warn("cannot record that an image was refused; it will be pulled again", "key", key, "error", err)
	}
}

// Refused returns why this process refused the image of a key.
func (s *Store) Refused(key string) (refusal Refusal, refused bool) {
	record, err := s.volume.ReadFile(path.Join(refusedDir, key))
	if err != nil || json.Unmarshal(record, &refusal) != nil { // incomplete: the volume was full
		return Refusal{}, false
	}
	return refusal, true
}

// ForgetRefusal deletes the record of RecordRefusal, so that the image is tried again.
func (s *Store) ForgetRefusal(key string) {
	_ = s.volume.Remove(path.Join(refusedDir, key)) // usually there is none
}
