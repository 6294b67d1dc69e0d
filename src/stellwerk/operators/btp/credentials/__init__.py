"""The credentials of SAP BTP.

credentials         the required Secret, and what the operand runs with
credential_check    whether SAP BTP accepts them
token_request       the request for a token
"""
