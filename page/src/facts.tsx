/** A table of names and what they stand for. */
export function Facts({ facts }: { readonly facts: readonly (readonly [string, string])[] }) {
  return (
    <table class="facts">
      {facts.map(([name, value]) => (
        <tr>
          <th scope="row">{name}</th>
          <td>{value}</td>
        </tr>
      ))}
    </table>
  );
}
