package store

import "encoding/json"

// Refusal says why an image cannot become a snapshot.
type Refusal struct {
	Reason  string `json:"reason,omitempty"` // for machines; may be empty
	Message string `json:"message"`          // for people
}

// RecordRefusal notes why the image of a key cannot become a snapshot, so that the same digest is not fetched again at every poll.
// The note is a saving, no promise: it is gone with the process, and losing it costs one more attempt.
func (s *Store) RecordRefusal(key string, refusal Refusal) {
	note, err := json.Marshal(refusal)
	if err == nil {
		err = s.volume.writeFile(refusedDir+"/"+key, bytesOf(note))
	}
	if err != nil {
		s.opts.Logger.Warn("cannot note that an image was refused; it will be fetched again", "key", key, "error", err)
	}
}

// Refused returns why the image of a key was refused by this process, if it was.
func (s *Store) Refused(key string) (refusal Refusal, refused bool) {
	note, err := s.volume.ReadFile(refusedDir + "/" + key)
	if err != nil || json.Unmarshal(note, &refusal) != nil { // not whole: the disk was full
		return Refusal{}, false
	}
	return refusal, true
}

// ForgetRefusal drops the note that RecordRefusal made, for another attempt.
func (s *Store) ForgetRefusal(key string) {
	_ = s.volume.Remove(refusedDir + "/" + key) // mostly there is none
}
