"""Faults of the delegate's certificate:

IdentityError
  CertificateDamagedError   what is on disk can't be used
  RenewalRefusedError       the manager will not renew; only enrolling again may help
  RenewalFailedError        no new certificate came about this time
  UnsupportedError          the manager gives no certificates
  TrialError                the manager was not reached with the new certificate
  NotEnrolledError          there is no delegate that could have a certificate
  WrongUserError            what this process writes could not be read by the delegate's
StateDirectoryError (of `daemon.directories`)  the directory can't be written or read
"""

from delegate.foundation.errors import Category, DelegateError


class IdentityError(DelegateError):
    default_code = "identity.fault"
    category = Category.DEPENDENCY


class CertificateDamagedError(IdentityError):
    default_code = "identity.damaged"
    category = Category.INPUT


class RenewalRefusedError(IdentityError):
    default_code = "identity.renewal_refused"
    category = Category.PERMISSION


class RenewalFailedError(IdentityError):
    default_code = "identity.renewal_failed"
    default_retryable = True


class UnsupportedError(IdentityError):
    default_code = "identity.unsupported"


class NotEnrolledError(IdentityError):
    default_code = "input.not_enrolled"
    category = Category.INPUT


class WrongUserError(IdentityError):
    default_code = "input.wrong_user"
    category = Category.INPUT


class TrialError(IdentityError):
    default_code = "identity.trial_failed"
    default_retryable = True
