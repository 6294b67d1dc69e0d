package kustomizations

func (s *session) discreet(err error) error { return err }
