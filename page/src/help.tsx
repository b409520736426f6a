import { keysOf } from "./keys";
import { tabs } from "./state";

export function Help() {
  return (
    <div class="help" role="dialog" aria-label="Keys">
      <table>
        {keysOf(tabs.value).map(({ shown, does, on }) => (
          <tr>
            <td>
              <kbd>{shown}</kbd>
            </td>
            <td>{does}</td>
            <td>{on ?? ""}</td>
          </tr>
        ))}
      </table>
      <p>Ctrl-F searches in a text that has the focus.</p>
    </div>
  );
}
